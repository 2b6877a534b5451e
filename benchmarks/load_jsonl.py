"""How fast a file of a million rows is read as scenarios, and in how much memory.

Five readings, each in a fresh process, in turns, so that a busy moment hits all: `stream_jsonl` over the whole file;
over a tenth of it, whose memory should be the same; over as many rows that have no ids and are named by a hash of their
content; `load_jsonl` of a tenth, which keeps every scenario; and the floor, a loop that only parses each line. The
bound is for memory: streaming raises the peak by no more than 20 MB.

    python benchmarks/load_jsonl.py [--quick] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import machine, spread

__all__ = ["main"]

ROWS = 1_000_000
QUICK_ROWS = 250_000
BOUND_MB = 20.0
WORDS = ("a", "baker", "sells", "three", "dozen", "rolls", "in", "the", "morning", "and", "how", "many", "are", "left")

# What each process does. Its peak is compared with that before the reading: all it imports is loaded by then.
CLOCK = """
import resource, sys, time
{imports}
path, limit = sys.argv[1], int(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall_s, cpu_s = time.perf_counter(), time.process_time()
{reading}
wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(wall_s, cpu_s, grown / (2**20 if sys.platform == "darwin" else 2**10), found)
"""
STREAM = "found = sum(1 for _ in stream_jsonl(path, prompt_key='question', label_key='answer', limit=limit))"
LOAD = "found = len(load_jsonl(path, prompt_key='question', label_key='answer', limit=limit))"
PARSE = """
with open(path, "rb") as file:
    found = sum(1 for line in file if json.loads(line))
"""
ARTKIT = "from artkit.scenarios import load_jsonl, stream_jsonl"
# The program, the file that it reads, and which part of it.
READINGS = {
    "stream": (CLOCK.format(imports=ARTKIT, reading=STREAM), "with_ids", 1),
    "stream_tenth": (CLOCK.format(imports=ARTKIT, reading=STREAM), "with_ids", 10),
    "stream_without_ids": (CLOCK.format(imports=ARTKIT, reading=STREAM), "without_ids", 10),
    "load_tenth": (CLOCK.format(imports=ARTKIT, reading=LOAD), "with_ids", 10),
    "parse": (CLOCK.format(imports="import json", reading=PARSE), "with_ids", 1),
}


def write(path: Path, rows: int, seed: int, *, ids: bool) -> Path:
    """Write the rows of a set of word problems; returns the path."""
    numbers = random.Random(seed)  # the same rows every time
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            question = " ".join(numbers.choices(WORDS, k=24)) + f" ({row})?"
            task = {"id": f"task-{row}"} if ids else {}
            task |= {"question": question, "answer": str(numbers.randrange(1_000)), "level": "easy", "source": "made"}
            file.write(json.dumps(task) + "\n")
    return path


def read(name: str, path: Path, expected: int) -> tuple[float, float, float]:
    """Rows in a second of wall and of CPU time, and megabytes that the peak of the memory rose."""
    done = subprocess.run(
        [sys.executable, "-c", READINGS[name][0], str(path), str(expected)],
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,
    )
    wall_s, cpu_s, grown_mb, found = map(float, done.stdout.split())
    if found != expected:
        sys.exit(f"{name} found {found:.0f} rows, not {expected}")
    return expected / wall_s, expected / cpu_s, grown_mb


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, within 50 s")
    parser.add_argument("--seed", type=int, default=0, help="of the rows (default 0)")
    arguments = parser.parse_args()
    rows, rounds, budget_s = (QUICK_ROWS, 3, 25.0) if arguments.quick else (ROWS, 10, float("inf"))
    started = time.monotonic()

    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in READINGS}
    with tempfile.TemporaryDirectory() as directory:
        files = {
            "with_ids": write(Path(directory) / "with_ids.jsonl", rows, arguments.seed, ids=True),
            "without_ids": write(Path(directory) / "without_ids.jsonl", rows // 10, arguments.seed, ids=False),
        }
        size_mb = files["with_ids"].stat().st_size / 2**20
        while len(measured["parse"]) < rounds and (not measured["parse"] or time.monotonic() - started < budget_s):
            for name, (_, file, parts) in READINGS.items():
                measured[name].append(read(name, files[file], rows // parts))
            print(" ".join(f"{name} {of[-1][0]:,.0f} rows/s" for name, of in measured.items()), file=sys.stderr)

    columns = {
        f"{name}_{unit}": [figures[place] for figures in of]
        for name, of in measured.items()
        for place, unit in enumerate(("rows_per_s", "rows_per_cpu_s", "peak_growth_mb"))
    }
    ratios = [
        ours / floor
        for ours, floor in zip(columns["stream_rows_per_cpu_s"], columns["parse_rows_per_cpu_s"], strict=True)
    ]
    result = {
        "benchmark": "load_jsonl",
        "stream_over_parse_rows_per_cpu_s": spread(ratios),
        **{name: spread(values) for name, values in columns.items()},
        "bound_mb": BOUND_MB,
        "within_bounds": statistics.median(columns["stream_peak_growth_mb"]) < BOUND_MB,
        "rows": rows,
        "file_mb": round(size_mb, 1),
        "seed": arguments.seed,
        "rounds": len(ratios),
        "machine": machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
