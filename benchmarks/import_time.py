"""How long `import artkit` takes, beside `import art`, each in fresh processes.

The bound is 0.3 s for artkit: it is imported by command lines and test collectors that may never train.

    python benchmarks/import_time.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from common import machine, spread

__all__ = ["main"]

BOUND_S = 0.3
CLOCK = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


def import_s(module: str, directory: str) -> float:
    """Seconds that the import takes in a fresh interpreter, its own start not counted."""
    done = subprocess.run(
        [sys.executable, "-c", CLOCK.format(module=module)],
        cwd=directory,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Times both imports in turn, so that a busy moment hits both, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s")
    arguments = parser.parse_args()
    budget_s, pairs = (30.0, 5) if arguments.quick else (float("inf"), 20)

    artkit_s: list[float] = []
    art_s: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        import_s("artkit", directory)  # the first import reads the disk and is not counted
        started = time.monotonic()
        while len(art_s) < pairs and (not art_s or time.monotonic() - started < budget_s):
            artkit_s += [import_s("artkit", directory), import_s("artkit", directory)]
            art_s.append(import_s("art", directory))
            print(f"import artkit {artkit_s[-1]:.3f} s, import art {art_s[-1]:.3f} s", file=sys.stderr)

    ratios = [art / statistics.mean(artkit_s[2 * i : 2 * i + 2]) for i, art in enumerate(art_s)]
    result = {
        "benchmark": "import_time",
        "artkit_s": spread(artkit_s),
        "art_s": spread(art_s),
        "art_over_artkit": spread(ratios),
        "bound_s": BOUND_S,
        "within_bound": statistics.median(artkit_s) < BOUND_S,
        "pairs": len(art_s),
        "machine": machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
