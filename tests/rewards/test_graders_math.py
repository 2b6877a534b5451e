"""Boxed answers, compared as mathematics in processes that can be killed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from pathlib import Path

import art
import pytest

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import ProgrammaticReward, boxed_math
from artkit.rewards.graders import math_workers
from artkit.rewards.graders.math_workers import MathWorkers
from artkit.scenarios import PromptScenario
from artkit.testing import choice, episode

pytestmark = [
    pytest.mark.math,
    pytest.mark.timeout(180),  # the first comparison waits for SymPy to be imported
]

FOREVER = r"9^{9^{9^9}}"


@pytest.mark.parametrize(
    ("reply", "expected", "score"),
    [
        (r"\boxed{5}", "5", 1.0),
        (r"\boxed{\frac{2}{4}}", "1/2", 1.0),
        (r"\boxed{0.5}", r"\frac12", 1.0),
        (r"\boxed{(x+1)^2}", "x^2 + 2x + 1", 1.0),
        (r"\boxed{1,000}", "1000", 1.0),
        (r"\boxed{\text{Paris}}", r"\text{Paris}", 1.0),
        (r"\boxed{5}", r"Thus $x = \boxed{5}$.", 1.0),
        (r"\boxed{6}", "5", 0.0),
        (r"\boxed{5, 7}", "5", 0.0),
        (r"\boxed{\text{London}}", r"\text{Paris}", 0.0),
        (r"\boxed{}", "5", 0.0),
        (r"\boxed{5} or \boxed{6}", "5", 0.0),
        ("5", "5", 0.0),
        (r"\boxed{5", "5", 0.0),
    ],
)
def test_the_last_box_is_compared_as_mathematics(reply, expected, score) -> None:
    """Other ways to write it are right as well; a list of guesses is not."""
    assert boxed_math().grade(reply, expected) == score


async def test_an_expression_that_takes_forever_costs_its_member_alone() -> None:
    """Python would work it out inside one call, with every thread and the event loop standing still."""
    scenario = PromptScenario(id="s", messages="?", label="5")
    members = [episode("?", choice(f"\\boxed{{{box}}}"), scenario=scenario) for box in (FOREVER, "5", "6")]
    group = art.TrajectoryGroup(members)
    boxed_math().grade(r"\boxed{1}", "1")  # the processes are there
    await ProgrammaticReward(boxed_math(timeout_s=1))(group)

    assert [member.reward for member in group.trajectories] == [1.0, 0.0]
    assert f"comparing {FOREVER!r} with '5' took longer than timeout_s=1" in group.exceptions[0].message


def test_an_expected_text_that_says_nothing_is_an_error() -> None:
    """Every reply would be wrong."""
    with pytest.raises(RewardError, match="math-verify cannot read what was expected"):
        boxed_math().grade(r"\boxed{5}", "")


def test_a_process_that_died_is_replaced() -> None:
    """The system kills what takes too much memory."""
    workers = MathWorkers(1)
    try:
        assert workers.is_equal("1", "1", timeout_s=60)
        (process,) = workers._idle
        process.kill()
        process.wait()

        assert workers.is_equal("1/2", "0.5", timeout_s=60)
        assert workers._idle != [process]
    finally:
        workers.close()


def test_a_process_that_says_something_else_is_ended(monkeypatch, tmp_path) -> None:
    """A library that prints would leave it behind, neither idle nor ended."""
    script = tmp_path / "worker.py"
    script.write_text('print(\'{"ready": true}\', flush=True)\ninput()\nprint("hello", flush=True)\ninput()\n')
    monkeypatch.setattr(math_workers, "_SCRIPT", script)
    workers = MathWorkers(1)
    process = workers._take()
    workers._idle.append(process)

    with pytest.raises(RewardError, match=r"the process that runs math-verify said 'hello\\n'"):
        workers.is_equal("1", "1", timeout_s=60)
    assert (process.poll() is not None, workers._idle) == (True, [])


def test_importing_the_grader_leaves_nothing_to_be_done_at_exit() -> None:
    """Only who compares has processes to end."""
    program = (
        "import atexit; names = []; atexit.register = lambda function, *_, **__: names.append(repr(function));"
        "import artkit.rewards; print([name for name in names if 'MathWorkers' in name])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_threads_share_the_processes() -> None:
    """Members are graded at the same time, each in its thread."""
    workers = MathWorkers(1)
    results: dict[int, bool] = {}

    def compare(number: int) -> None:
        results[number] = workers.is_equal("3", str(number), timeout_s=60)

    threads = [threading.Thread(target=compare, args=(number,)) for number in range(6)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert results == {number: number == 3 for number in range(6)}
        assert len(workers._idle) == 1
    finally:
        workers.close()


def test_a_process_whose_caller_is_gone_ends_by_itself() -> None:
    """A killed run must leave nothing behind that computes for ever."""
    script = Path(math_workers.__file__).with_name("math_worker.py")
    worker = subprocess.Popen([sys.executable, "-P", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with worker:
        worker.stdout.readline()
        worker.stdin.write(f'{{"expected": "5", "answer": "{FOREVER}", "timeout_s": 0.5}}\n')
        worker.stdin.flush()
        deadline = time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)

        assert worker.poll() is not None


def test_a_missing_package_is_told_when_the_grader_is_made(monkeypatch) -> None:
    """Before the run, not at the first reply."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=r"pip install .*artkit-rl\[math\]"):
        boxed_math()


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf")])
def test_a_deadline_that_is_none_is_refused(timeout_s) -> None:
    """Some answers take longer than any run."""
    with pytest.raises(ConfigurationError, match="is no positive finite number"):
        boxed_math(timeout_s=timeout_s)
