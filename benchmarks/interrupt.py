"""How long a run takes to end, clean, after Ctrl-C, with 512 rollouts that would take 60 s more.

A script that does `asyncio.run(trainer.run())` is started in a process of its own. As soon as all its rollouts wait for
the model, whose server takes 60 s for a reply, it gets SIGINT. What is measured is the time until the process is gone,
and of that the time until `asyncio.run` has ended: every environment closed, every connection, the backend. What comes
after that is Python's own end, with everything that openpipe-art has imported.

A run that left an environment open, or closed one twice, or that ended in any other way than by SIGINT, is an error,
and so is the exit status. The bound: a median of 3 s.

    python benchmarks/interrupt.py [--quick] [--rollouts N] [--runs N]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import machine

from artkit.testing import ChatServer, Reply

__all__ = ["Ending", "interrupt", "main"]

ROLLOUTS = 512
PER_GROUP = 4
REPLY_S = 60.0
BOUND_S = 3.0
ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHON_DOTENV_DISABLED": "1", "WANDB_MODE": "disabled"}


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        status: The exit status as the shell has it.
        run_s: From the signal until `asyncio.run` had ended.
        process_s: From the signal until the process was gone.
        closings: How many environments were made, and how often each number of closings occurred.
        threads: Threads that were left, but for the main one.
        errors: What was written to standard error.
    """

    status: int
    run_s: float
    process_s: float
    closings: dict[int, int]
    threads: list[str]
    errors: str


# The run -------------------------------------------------------------------------------------------------------------


def child(directory: str, url: str, key: str, rollouts: int) -> None:
    """Run until somebody presses Ctrl-C, and print what is left then."""
    import threading
    from collections import Counter

    from artkit import (
        Action,
        Environment,
        EnvironmentReward,
        PromptScenario,
        Rollout,
        StepResult,
        Trainer,
        TrainerSettings,
        make_trainable_model,
    )
    from artkit.testing import DiaryBackend

    class Counted(Environment[PromptScenario]):
        """Counts how often each instance is closed."""

        made: list[Counted] = []  # noqa: RUF012  # of the class

        def __init__(self) -> None:
            self.closed = 0
            self.made.append(self)

        async def reset(self, scenario: PromptScenario) -> Any:
            return scenario.messages

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

        async def close(self) -> None:
            self.closed += 1

    class Elsewhere(DiaryBackend):
        """Its server is in another process."""

        async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
            return url, key

    groups = rollouts // PER_GROUP
    question: list[Any] = [{"role": "user", "content": "Which way?"}]
    trainer = Trainer(
        model=make_trainable_model(
            name="interrupted", project="interrupt", base_model="none", base_path=directory, report_metrics=[]
        ),
        backend=Elsewhere(),
        rollout=Rollout(Counted),
        train=[PromptScenario(id=f"s{number}", messages=question) for number in range(groups)],
        reward=EnvironmentReward(),
        trackers=(),
        settings=TrainerSettings(
            groups_per_step=groups, rollouts_per_group=PER_GROUP, max_concurrent=rollouts, check_environment=False
        ),
    )
    try:
        asyncio.run(trainer.run())
    finally:
        left = {
            "closings": Counter(environment.closed for environment in Counted.made),
            "threads": [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()],
        }
        print(json.dumps(left), flush=True)


# The finger on Ctrl-C ------------------------------------------------------------------------------------------------


def interrupt(rollouts: int, *, options: tuple[str, ...] = ()) -> Ending:
    """Start a run, interrupt it when all its rollouts wait for the model, and return how it ended.

    Args:
        rollouts: How many.
        options: Of the interpreter.
    """
    slow = Reply("too late", delay_s=REPLY_S)
    with tempfile.TemporaryDirectory() as directory, ChatServer(lambda _: slow) as server:
        where = json.dumps([directory, server.base_url, server.api_key])
        command = [sys.executable, *options, __file__, "--child", where, "--rollouts", str(rollouts)]
        # A file, which takes whatever is written to it: a pipe that nobody reads would hold the process up.
        with (
            (Path(directory) / "errors.txt").open("w+", encoding="utf-8") as file,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=file, text=True, env={**os.environ, **ENVIRONMENT}
            ) as process,
        ):
            while len(server.requests) < rollouts and process.poll() is None:
                time.sleep(0.01)
            began_s = time.monotonic()
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()  # type: ignore[union-attr]  # it is a pipe
            run_s = time.monotonic() - began_s
            code = process.wait()
            process_s = time.monotonic() - began_s
            file.seek(0)
            errors = file.read()
    if not line:
        raise RuntimeError(errors)
    left = json.loads(line)
    return Ending(
        status=128 - code if code < 0 else code,
        run_s=run_s,
        process_s=process_s,
        closings={int(count): number for count, number in left["closings"].items()},
        threads=left["threads"],
        errors=errors,
    )


def wrong(ending: Ending, rollouts: int) -> list[str]:
    """Return what is wrong with the end of a run, in words."""
    found = []
    if ending.status != 128 + signal.SIGINT:
        found.append(f"the exit status is {ending.status}: {ending.errors}")
    if ending.closings != {1: rollouts}:
        found.append(f"environments by how often they were closed: {ending.closings}")
    if threads := [name for name in ending.threads if name.startswith("artkit")]:
        found.append(f"threads were left: {threads}")
    return found


def main() -> None:
    """Interrupt some runs; one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="stop within 50 s")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        directory, url, key = arguments.child
        child(directory, url, key, arguments.rollouts)
        return
    deadline = time.monotonic() + (35 if arguments.quick else float("inf"))
    endings: list[Ending] = []
    while len(endings) < arguments.runs and (not endings or time.monotonic() < deadline):
        ending = interrupt(arguments.rollouts)
        endings.append(ending)
        print(f"{ending.process_s:.2f} s, of which the run {ending.run_s:.2f} s", file=sys.stderr)
    errors = [found for ending in endings if (found := wrong(ending, arguments.rollouts))]
    for text in itertools.chain.from_iterable(errors):
        print(text, file=sys.stderr)
    seconds = [ending.process_s for ending in endings]
    print(
        json.dumps(
            {
                "benchmark": "interrupt",
                "rollouts": arguments.rollouts,
                "runs": len(endings),
                "runs_that_ended_wrong": len(errors),
                "ctrl_c_median_s": round(statistics.median(seconds), 3),
                "ctrl_c_spread_s": [round(min(seconds), 3), round(max(seconds), 3)],
                "of_which_the_run_median_s": round(statistics.median(ending.run_s for ending in endings), 3),
                "bound_s": BOUND_S,
                "within_bound": statistics.median(seconds) < BOUND_S,
                "machine": machine(),
            }
        )
    )
    if errors:
        sys.exit(1)


if __name__ == "__main__":
    main()
