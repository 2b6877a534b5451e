"""Run `artkit demo` for several seeds and show that each learns: success on held-out tasks before and after GRPO.

python benchmarks/demo_seeds.py --seeds 0-9 --held-out 1000

Each seed is a process of its own in a directory of its own, as a user would start it. The last line is JSON. The exit
code is 0 when every seed began at most at 0.45 and ended at least at 0.9.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_MOST_BEFORE = 0.45
AT_LEAST_AFTER = 0.9


def main() -> int:
    """Run the seeds and print their figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=_seeds, default="0-9", help="such as 0-9 or 3,17,99 (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=1000, help="held-out tasks (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at the same time (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="seed 0, 8 steps, 128 held-out tasks; must pass 0.5")
    arguments = parser.parse_args()
    seeds, held_out, steps = ([0], 128, 8) if arguments.quick else (arguments.seeds, arguments.held_out, 50)
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda seed: _run(seed, held_out, steps, Path(directory)), seeds))
    summary = _summary(results, held_out, arguments.jobs, 0.5 if arguments.quick else AT_LEAST_AFTER)
    print(json.dumps(summary))
    return 0 if summary["passed"] else 1


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def _run(seed: int, held_out: int, steps: int, directory: Path) -> dict[str, Any]:
    path = directory / f"{seed}.json"
    command = [sys.executable, "-m", "artkit.cli", "demo", "--seed", str(seed), "--held-out", str(held_out)]
    command += ["--steps", str(steps), "--dir", str(directory / str(seed)), "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"seed {seed}: exit code {done.returncode}")
    result: dict[str, Any] = json.loads(path.read_text())
    success = f"{result['success_before']:.3f} -> {result['success_after']:.3f}"
    print(f"seed {seed}: success {success} in {result['wall_s']:.1f} s", flush=True)
    return result


def _summary(results: Sequence[dict[str, Any]], held_out: int, jobs: int, at_least_after: float) -> dict[str, Any]:
    before = [result["success_before"] for result in results]
    after = [result["success_after"] for result in results]
    wall_s = [result["wall_s"] for result in results]
    return {
        "benchmark": "demo_seeds",
        "seeds": [result["seed"] for result in results],
        "held_out": held_out,
        "jobs": jobs,
        "success_before": before,
        "success_after": after,
        "highest_before": max(before),
        "lowest_after": min(after),
        "wall_s": {"median": statistics.median(wall_s), "longest": max(wall_s)},
        "passed": max(before) <= AT_MOST_BEFORE and min(after) >= at_least_after,
        "machine": {"cpus": os.cpu_count(), "arch": platform.machine(), "python": platform.python_version()},
    }


if __name__ == "__main__":
    raise SystemExit(main())
