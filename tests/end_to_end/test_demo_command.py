"""`artkit demo` as a person meets it: it is killed, goes on, ends, and is asked again."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artkit import MetricHistory
from artkit.cli.demo.command import run_demo
from artkit.cli.demo.recipe import Recipe

# The fixture counts towards the first test's time.
pytestmark = pytest.mark.timeout(180)

SMALL = Recipe(held_out=16, warm_up_batches=60, steps=4, groups_per_step=4, rollouts_per_group=4)

PROGRAM = f"""
import sys
from pathlib import Path
from artkit.cli.demo.command import run_demo
from artkit.cli.demo.recipe import Recipe
run_demo(Path(sys.argv[1]), Recipe(
    held_out={SMALL.held_out},
    warm_up_batches={SMALL.warm_up_batches},
    steps={SMALL.steps},
    groups_per_step={SMALL.groups_per_step},
    rollouts_per_group={SMALL.rollouts_per_group},
))
"""


@dataclass(frozen=True)
class Run:
    directory: Path
    before_the_kill: str
    after_it: str
    figures: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A demo that was killed after its second step, and run again to its end."""
    directory = tmp_path_factory.mktemp("demo")
    before_the_kill = "".join(until_killed(directory, after="step 2/4"))
    screen, path = io.StringIO(), directory / "figures.json"
    run_demo(directory, SMALL, json_path=path, file=screen)
    return Run(directory, before_the_kill, screen.getvalue(), json.loads(path.read_text()))


def until_killed(directory: Path, *, after: str) -> Iterator[str]:
    command = [sys.executable, "-c", PROGRAM, str(directory)]
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line
            if line.startswith(after):
                process.kill()


def test_a_killed_demo_goes_on_where_it_stopped(run: Run) -> None:
    """The warm-up and the steps that were done are not done again."""
    history = MetricHistory.read(run.directory / "demo" / "models" / "order-desk" / "history.jsonl")

    assert "warm-up" in run.before_the_kill
    assert "warm-up: " not in run.after_it
    assert list(history.values("train/reward")) == [2, 3, 4, 5]
    assert list(history.values("val/reward")) == [1, 5]


def test_the_end_shows_what_was_gained(run: Run) -> None:
    """Success before and after, an episode of each, the model's name, and how to use it."""
    wanted = (
        "finished: max_steps=4",
        "before the warm-up",
        "before GRPO",
        "after GRPO",
        "A held-out task before GRPO:",
        "model: order-desk@5",
    )

    assert [text for text in wanted if text not in run.after_it] == []
    assert run.after_it.count("  user       age of order 01\n") == 2
    assert "\x1b" not in run.after_it


def test_the_figures_are_those_of_the_whole_run(run: Run) -> None:
    """A program reads them."""
    measured = {"success_before", "success_after", "val_reward_before", "val_reward_after", "success_untrained"}
    costs = {"wall_s", "tokens_trained", "tokens_per_s"}
    rest = {"seed": 0, "held_out": 16, "train_steps": 4, "final_inference_name": "order-desk@5"}

    assert {name: value for name, value in run.figures.items() if name not in measured | costs} == rest
    assert all(0 <= run.figures[name] <= 1 for name in measured if name.startswith("success"))
    assert all(run.figures[name] > 0 for name in costs)


def test_the_usage_example_runs(run: Run) -> None:
    """It opens the backend again, in a process of its own."""
    _, _, usage = run.after_it.partition("It is used like this:\n\n")

    done = subprocess.run([sys.executable, "-c", usage], capture_output=True, text=True, check=True)

    assert done.stdout.strip()


def test_a_finished_demo_trains_nothing_more(run: Run) -> None:
    """It says so, and shows the same figures."""
    screen = io.StringIO()

    run_demo(run.directory, SMALL, file=screen)

    assert "is finished" in screen.getvalue()
    assert run.after_it.endswith(screen.getvalue().partition("\n\n")[2])
