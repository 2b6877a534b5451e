"""What a rollout costs the client in CPU time, at 1, 4 and 16 turns, beside other ways to play the same turns.

512 rollouts are in flight against a stub server that answers after 20 ms: always the same replies, 24 tokens each with
their ids and log probabilities, and the ids of the prompt, as vLLM sends them to a run that trains. The contenders are

- `bare`: `openai.AsyncOpenAI` on the aiohttp transport, in a loop that appends messages and keeps nothing else;
- `artkit`: `gather_groups(Rollout(environment), model, scenarios)`, at its defaults;
- `art_loop`: `art.gather_trajectory_groups` over a rollout as ART's examples write it: `model.openai_client()`,
  `trajectory.messages()` in each turn, `messages_and_choices.append(choice)`;
- `inspect_ai`, where it is installed: an evaluation of one sample in 512 epochs, whose log it writes.

Every contender has a process of its own for the whole run, so that none pays for what another has imported or left in
memory; after a wave of rollouts that does not count, they take turns, so that a busy moment hits all. What is counted
is the user and system time of that process while it plays one wave of 512 rollouts, the opening of its connections
included (in training the server hangs up on idle ones between two steps); garbage of earlier waves is collected before.
The server has its own process. A wave of more than a minute is played in the first round only; `--quick` leaves out
that of `art_loop` at 16 turns. The bounds: artkit at most 1.5 times `bare` at 4 and at 16 turns, and at most a third of
`art_loop`.

    python benchmarks/rollouts.py [--quick] [--seed N] [--in-flight N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib.metadata
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import IO, TypeAlias

from common import machine, spread
from rollout_costs.contenders import CONTENDERS
from rollout_costs.conversation import TURNS
from rollout_costs.stub_server import LATENCY_S, serve

__all__ = ["main"]

IN_FLIGHT = 512
QUICK_IN_FLIGHT = 32
SLOW_S = 60.0  # a wave that took longer is not repeated
OPTIONAL = frozenset({"inspect_ai"})
OVER_BARE = 1.5
OVER_ART_LOOP = 1 / 3
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHON_DOTENV_DISABLED": "1",
    "WANDB_MODE": "disabled",
    "WEAVE_DISABLED": "true",
}

# CPU milliseconds per turn of a rollout, round by round, of a contender at a number of turns.
Measured: TypeAlias = dict[tuple[str, int], list[float]]


def work(name: str, base_url: str) -> None:
    """Play a wave for each line of standard input, `rollouts turns`, and print its CPU and wall seconds and replies."""
    # What a contender prints is not an answer.
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    play = CONTENDERS[name](base_url)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            rollouts, turns = map(int, line.split())
            gc.collect()
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            replies = runner.run(play(rollouts, turns))
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            print(cpu_s, wall_s, replies, file=answers, flush=True)


class Process:
    """This script in another process, in one of its two other roles; it ends with the `with` that it is opened in."""

    def __init__(self, *role: str, log: IO[str]) -> None:
        self._role = role[0]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--role", *role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def ask(self, question: str = "") -> list[str]:
        """Send a line, if there is one, and return the words of the next line that it prints."""
        if question:
            print(question, file=self._process.stdin, flush=True)
        words = self._process.stdout.readline().split() if self._process.stdout else []
        if not words:
            raise RuntimeError(f"the process of {self._role} ended")
        return words

    def wave(self, rollouts: int, turns: int) -> tuple[float, float]:
        """CPU and wall seconds of one wave."""
        cpu_s, wall_s, replies = map(float, self.ask(f"{rollouts} {turns}"))
        if replies != rollouts * turns:
            sys.exit(f"{self._role} got {replies:.0f} replies, not {rollouts * turns}")
        return cpu_s, wall_s

    def close(self) -> None:
        self._process.terminate()  # it may be in the middle of a wave
        self._process.communicate()


def measure(names: list[str], *, in_flight: int, rounds: int, budget_s: float, chance: random.Random) -> Measured:
    """Return the CPU milliseconds per turn of a rollout, of each contender and number of turns, round by round."""
    measured: Measured = {(name, turns): [] for name in names for turns in TURNS}
    if budget_s < SLOW_S:
        measured.pop(("art_loop", 16), None)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        server = stack.enter_context(contextlib.closing(Process("server", log=log)))
        base_url = f"http://127.0.0.1:{server.ask()[0]}/v1"
        processes = {name: stack.enter_context(contextlib.closing(Process(name, base_url, log=log))) for name in names}
        try:
            for process in processes.values():
                process.wave(in_flight, 1)  # the first request imports a good deal
            started = time.monotonic()
            for done in range(rounds):
                if done and time.monotonic() - started > budget_s * done / (done + 1):
                    break  # another round would take too long
                for name, turns in chance.sample(sorted(measured), len(measured)):
                    cpu_ms = measured[name, turns]
                    if cpu_ms and cpu_ms[-1] * in_flight * turns > 1_000 * SLOW_S:
                        continue
                    cpu_s, wall_s = processes[name].wave(in_flight, turns)
                    cpu_ms.append(1_000 * cpu_s / (in_flight * turns))
                    print(f"{turns:2} turns, {name}: {cpu_s:.2f} s of CPU in {wall_s:.2f} s", file=sys.stderr)
        except BaseException:
            log.seek(0)
            print(log.read()[-4_000:], file=sys.stderr)
            raise
    return measured


def ratios(measured: Measured, name: str) -> dict[str, list[float]]:
    """Return how many times what `name` costs artkit does, round by round."""
    return {
        f"cpu_per_rollout_vs_{name}_{turns}_turns": [
            ours / theirs[min(number, len(theirs) - 1)] for number, ours in enumerate(measured["artkit", turns])
        ]
        for turns in TURNS
        if (theirs := measured.get((name, turns)))
    }


def main() -> None:
    """Measures, and prints one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_IN_FLIGHT} rollouts in flight, within 50 s")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="rollouts at once (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="waves of each (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of whose turn it is (default 0)")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.role:
        case ["server"]:
            asyncio.run(serve())
            return
        case [name, base_url]:
            work(name, base_url)
            return
    names = [name for name in CONTENDERS if name not in OPTIONAL or importlib.util.find_spec(name)]
    rounds = arguments.rounds
    in_flight, budget_s = (QUICK_IN_FLIGHT, 25.0) if arguments.quick else (arguments.in_flight, math.inf)
    measured = measure(
        names, in_flight=in_flight, rounds=rounds, budget_s=budget_s, chance=random.Random(arguments.seed)
    )

    compared = {key: values for name in names if name != "artkit" for key, values in ratios(measured, name).items()}
    medians = {key: statistics.median(values) for key, values in compared.items()}
    result = {
        "benchmark": "rollouts",
        **{key: spread(values) for key, values in compared.items()},
        "artkit_cpu_per_turn_16_vs_4_turns": spread(
            [many / few for few, many in zip(measured["artkit", 4], measured["artkit", 16], strict=True)]
        ),
        **{f"{name}_cpu_ms_per_turn_{turns}_turns": spread(values) for (name, turns), values in measured.items()},
        "bound_vs_bare": OVER_BARE,
        "bound_vs_art_loop": round(OVER_ART_LOOP, 3),
        "within_bounds": all(
            medians.get(f"cpu_per_rollout_vs_{name}_{turns}_turns", 0) <= bound
            for name, bound in (("bare", OVER_BARE), ("art_loop", OVER_ART_LOOP))
            for turns in (4, 16)
        ),
        "not_installed": sorted(OPTIONAL - set(names)),
        "in_flight": in_flight,
        "latency_s": LATENCY_S,
        "seed": arguments.seed,
        "rounds": len(measured["artkit", 1]),
        "machine": machine("openpipe-art"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
