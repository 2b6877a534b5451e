"""How long a history of a million rows takes to read, and how much memory, beside the way ART reads it.

The rows are as ART writes them: fifteen metrics of a training step, and after every tenth one those of a validation.
What ranks checkpoints is asked for, `val/reward`; and, as the worst case, a metric that every training row has. Each
reading has a fresh process, in turns, so that a busy moment hits all. The bounds, of the first: 2 s and 200 MB.

    python benchmarks/history.py [--quick] [--seed N]
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
BOUND_S = 2.0
BOUND_MB = 200.0
TRAIN = (
    "train/reward",
    "train/exception_rate",
    "train/turns",
    "train/error",
    "train/truncated",
    "train/tool_errors",
    "train/retries",
    "train/duration_s",
    "train/completion_tokens",
    "loss/train",
    "loss/entropy",
    "loss/grad_norm",
    "data/step_num_groups_submitted",
    "data/step_num_groups_trainable",
    "time/step_trainer_s",
)
VAL = ("val/reward", "val/reward_se", "val/reward_low", "val/reward_high", "val/turns", "val/error", "val/scored_share")

# What each process does. Its peak is compared with that before the reading: all it imports is loaded by then.
CLOCK = """
import resource, sys, time
{imports}
path = sys.argv[1]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall_s, cpu_s = time.perf_counter(), time.process_time()
{reading}
wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(wall_s, cpu_s, grown / (2**20 if sys.platform == "darwin" else 2**10), found)
"""
ARTKIT = "from artkit.checkpoints import MetricHistory"
READ = "values = MetricHistory.read(path, metrics={{{metric!r}}}).values({metric!r})\nfound = len(values)"
# What `model.delete_checkpoints` does to find the best step.
ART = """
frame = pl.read_ndjson(path).drop_nulls(subset=["val/reward"]).group_by("step").agg(pl.col("val/reward").mean())
found = len(frame)
frame.sort("val/reward").select(pl.col("step").last()).item()
"""
READINGS = {
    "artkit": CLOCK.format(imports=ARTKIT, reading=READ.format(metric="val/reward")),
    "artkit_in_every_row": CLOCK.format(imports=ARTKIT, reading=READ.format(metric="train/reward")),
    "art": CLOCK.format(imports="import polars as pl", reading=ART),
}


def write(path: Path, seed: int) -> dict[str, int]:
    """Write the history; returns how many steps each reading should find."""
    numbers = random.Random(seed)  # the same rows every time
    kinds = {
        names: [json.dumps({name: numbers.random() for name in names})[:-1] for _ in range(1_000)]
        for names in (TRAIN, VAL)
    }
    step, counts = 0, {TRAIN: 0, VAL: 0}
    with path.open("w", encoding="utf-8") as file:
        for row in range(ROWS):
            names = VAL if row % 11 == 10 else TRAIN
            step += names is TRAIN
            counts[names] += 1
            file.write(
                f'{kinds[names][row % 1_000]}, "training_step": {step}, "time/wall_clock_sec": {3.25 * row}, '
                f'"step": {step}, "recorded_at": "2025-01-01T00:00:00.{row % 1_000_000:06d}"}}\n'
            )
    return {"artkit": counts[VAL], "artkit_in_every_row": counts[TRAIN], "art": counts[VAL]}


def read(name: str, path: Path) -> tuple[float, float, float, int]:
    """Wall and CPU seconds, megabytes that the peak of the memory rose, and the steps that were found."""
    done = subprocess.run(
        [sys.executable, "-c", READINGS[name], str(path)], capture_output=True, text=True, check=True, cwd=path.parent
    )
    wall_s, cpu_s, grown_mb, found = done.stdout.split()
    return float(wall_s), float(cpu_s), float(grown_mb), int(found)


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s")
    parser.add_argument("--seed", type=int, default=0, help="of the rows (default 0)")
    arguments = parser.parse_args()
    budget_s, rounds = (30.0, 3) if arguments.quick else (float("inf"), 10)
    started = time.monotonic()

    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in READINGS}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        expected = write(path, arguments.seed)
        size_mb = path.stat().st_size / 2**20
        while len(measured["art"]) < rounds and (not measured["art"] or time.monotonic() - started < budget_s):
            for name in READINGS:
                *figures, found = read(name, path)
                if found != expected[name]:
                    sys.exit(f"{name} found {found} steps, not {expected[name]}")
                measured[name].append((figures[0], figures[1], figures[2]))
            print(" ".join(f"{name} {of[-1][0]:.2f} s" for name, of in measured.items()), file=sys.stderr)

    columns = {
        f"{name}_{unit}": [figures[place] for figures in of]
        for name, of in measured.items()
        for place, unit in enumerate(("wall_s", "cpu_s", "peak_growth_mb"))
    }
    wall_s, grown_mb = (statistics.median(columns[f"artkit_{unit}"]) for unit in ("wall_s", "peak_growth_mb"))
    ratios = [art / ours for art, ours in zip(columns["art_cpu_s"], columns["artkit_cpu_s"], strict=True)]
    result = {
        "benchmark": "history",
        "art_over_artkit_cpu": spread(ratios),
        **{name: spread(values) for name, values in columns.items()},
        "bound_s": BOUND_S,
        "bound_mb": BOUND_MB,
        "within_bounds": wall_s < BOUND_S and grown_mb < BOUND_MB,
        "rows": ROWS,
        "file_mb": round(size_mb, 1),
        "seed": arguments.seed,
        "rounds": len(ratios),
        "machine": machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
