"""Plays thousands of rollouts in which everything goes wrong at once, and holds what came of each against its plan.

A `Trainer` on `DiaryBackend` plays 2,000 rollouts of 8 turns, 512 of them in flight, against a `ChatServer` in a
process of its own. Which rollout meets which fault, and when, follows from the seed alone, so that each rollout has one
right end, and the counts one right sum. What goes wrong:

- the wire: connections refused, dropped before the answer and in it, stalled answers, slow ones, 429 with
  `Retry-After`, 500, 503, what is no JSON or half of it, no choices, null for choices, nothing said, replies that are
  broken off; some for a while, which retries mend, and some for ever;
- the model: refused and overflowing requests, replies cut off at their limit, calls of no tool, arguments that are no
  JSON, a task that is never done;
- tools and environments that raise (what a tool may, anything else, `SystemExit`, a `BaseException`, `CancelledError`),
  hang until one of their deadlines, hang in a thread, and ignore their cancellation, in `reset`, in a tool, in `close`;
- rewards that raise, or are NaN, or None.

The environments hold pipes, tasks and child processes that `close` gives back. Checked are each rollout by its plan
(where it ended, how, after how many turns and with which reward), the counts of the gathers, the history, the
recordings and the diary against each other, that every environment was closed once, that no task, thread, socket, file
or child process is left, and the peak of the memory.

    python benchmarks/soak.py [--rollouts 2000] [--seed 1] [--quick] [--stretch 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from common import machine
from soaking.plan import QUICK, Settings
from soaking.server_process import ServerProcess

__all__ = ["main"]

MAX_RSS_MIB = 1024


def main() -> None:
    """Soak once; one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=Settings.rollouts)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--stretch", type=float, default=1.0, help="of all deadlines, where the machine is slow")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.rollouts} rollouts, {QUICK.in_flight} in flight")
    arguments = parser.parse_args()
    settings = QUICK if arguments.quick else Settings(rollouts=arguments.rollouts)
    deadlines = {key: arguments.stretch * getattr(settings, key) for key in asdict(settings) if key.endswith("_s")}
    settings = replace(settings, seed=arguments.seed, **deadlines)
    with ServerProcess(settings) as server, tempfile.TemporaryDirectory() as directory:
        from soaking.run import soak  # which takes seconds, while the server does the same

        result = asyncio.run(soak(settings, server, Path(directory)))
    if (peak := result.numbers["peak_rss_mib"]) >= MAX_RSS_MIB:
        result.problems.append(f"the process had {peak} MiB, and {MAX_RSS_MIB} are the limit")
    for problem in result.problems:
        print(problem, file=sys.stderr)
    line = {"benchmark": "soak", **result.numbers, "problems": len(result.problems), "seed": settings.seed}
    print(json.dumps({**line, "machine": machine()}))
    sys.exit(1 if result.problems else 0)


if __name__ == "__main__":
    main()
