"""Trackers: what they are told, and that none costs a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import art
import pytest

from artkit import EnvironmentReward, Every, RewardError, Validation
from artkit.testing import DiaryBackend
from artkit.tracking import (
    JsonlTracker,
    RolloutFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    ValidationFinished,
    Warned,
)


@dataclass
class Broken:
    """Raises at every event; equal to every other of its kind."""

    calls: list[Any] = field(default_factory=list, compare=False)

    def handle(self, event: Any) -> None:
        self.calls.append(event)
        raise ValueError("no screen")


async def test_events_come_in_the_order_of_the_facts(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """A screen shows them as they come."""
    await workshop.trainer(validation=held_out("x", schedule=Every(1)), settings={"max_steps": 1}).run()

    names = [type(event).__name__ for event in workshop.told.events]
    assert names == [
        "RunStarted",
        *["RolloutFinished"] * 4,
        "StepFinished",
        "RolloutFinished",
        "ValidationFinished",
        "CheckpointsPruned",
        "RunFinished",
    ]
    assert [event.split for event in workshop.told.of(RolloutFinished)] == ["train"] * 4 + ["val"]
    (started,) = workshop.told.of(RunStarted)
    (step,) = workshop.told.of(StepFinished)
    assert (started.total_steps, started.start_step, started.plan_text.startswith("train: ")) == (1, 0, True)
    assert (step.step, step.epoch, step.index, step.total_steps) == (1, 0, 0, 1)
    assert (step.metrics["train/reward"], step.tokens_per_s > 0) == (0.5, True)
    assert workshop.told.of(ValidationFinished)[0].metrics["val/reward"] == 0.0


async def test_a_tracker_that_raises_is_left_out_and_the_others_are_told(workshop: Any) -> None:
    """A screen that broke is no reason to lose an hour of training; it is warned about once."""
    broken, other = Broken(), Broken()

    report = await workshop.trainer(trackers=(broken, workshop.told, other)).run()

    warnings = [event.text for event in workshop.told.of(Warned)]
    assert report.steps == 2
    assert warnings == ["Broken failed and is left out: ValueError: no screen"] * 2
    assert [len(broken.calls), len(other.calls), len(workshop.told.of(RunFinished))] == [1, 1, 1]


async def test_an_interrupt_in_a_tracker_passes(workshop: Any) -> None:
    """Only what a tracker does wrong by itself is held back."""

    class Interrupting:
        def handle(self, event: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await workshop.trainer(trackers=(Interrupting(),)).run()


async def test_a_resumed_run_says_where_it_begins(workshop: Any) -> None:
    """A bar that begins at zero again says the wrong time left."""
    await workshop.trainer(settings={"max_steps": 1}).run()
    await workshop.trainer(settings={"max_steps": 2}).run()

    assert [event.start_step for event in workshop.told.of(RunStarted)] == [0, 1]


async def test_a_count_of_tokens_that_is_no_number_costs_nothing(workshop: Any) -> None:
    """A rollout of a user's own may put anything there; it is only shown."""

    async def odd(model: Any, scenario: Any) -> Any:
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        reward = float(len(workshop.told.of(RolloutFinished)) % 2)
        return art.Trajectory(messages_and_choices=turns, reward=reward, metrics={"completion_tokens": float("nan")})

    async def keep(group: Any) -> Any:
        return group

    report = await workshop.trainer(rollout=odd, reward=keep, filters=None).run()

    assert report.steps == 2
    assert {event.tokens for event in workshop.told.of(RolloutFinished)} == {0}
    assert [event.tokens_per_s for event in workshop.told.of(StepFinished)] == [None, None]


async def test_every_run_keeps_its_events_in_a_file_of_its_own(workshop: Any) -> None:
    """What was warned about and why a checkpoint went is asked weeks later, when no screen knows it any more."""
    await workshop.trainer(settings={"max_steps": 1}).run()
    await workshop.trainer().run()

    lines = (workshop.model_dir / "artkit" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert (events.count("RunStarted"), events.count("StepFinished"), events.count("RunFinished")) == (2, 2, 2)


async def test_what_a_killed_session_could_not_tell_is_told_by_the_next(workshop: Any) -> None:
    """Else there is a hole in the curve of whoever keeps one."""

    class Killed(DiaryBackend):
        async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
            await super().train(model, groups, learning_rate=learning_rate)
            raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        await workshop.trainer(backend=Killed(workshop.server)).run()
    assert workshop.told.of(StepFinished) == []

    await workshop.trainer().run()

    told = [(event.step, event.index, event.metrics["train/reward"]) for event in workshop.told.of(StepFinished)]
    assert told == [(1, 0, 0.5), (2, 1, 0.5)]
    assert [event.start_step for event in workshop.told.of(RunStarted)] == [0, 0]


@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_tracker_that_can_be_closed_is_closed_however_the_run_ends(workshop: Any, ends_well: bool) -> None:
    """A file or a cursor is given back; one that cannot be closed well costs nothing."""

    class Closable(Broken):
        closed = 0

        def handle(self, event: Any) -> None:
            pass

        def close(self) -> None:
            self.closed += 1
            raise OSError("no disk")

    tracker = Closable()
    trainer = workshop.trainer(trackers=(tracker,), reward=EnvironmentReward() if ends_well else never_scored)
    with contextlib.nullcontext() if ends_well else pytest.raises(RewardError):
        await trainer.run()

    assert tracker.closed == 1


def never_scored(group: Any) -> Any:
    raise RewardError("broken", "mend it")


async def test_a_validation_that_is_told_late_is_told_with_its_own_numbers(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """Several sets share a step, and the training of that step too."""
    workshop.answers.replies = {"x": "2", "y": "2", "z": "9"}
    validations = [held_out(schedule=Every(1)), held_out("z", name="hard", schedule=Every(1))]
    await workshop.trainer(validation=validations, settings={"max_steps": 1}).run()
    journal = workshop.model_dir / "artkit" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"validated"' not in line and '"ended"' not in line))
    workshop.told.events.clear()

    await workshop.trainer(validation=validations, settings={"max_steps": 1}).run()

    first, second = [event.metrics for event in workshop.told.of(ValidationFinished)]
    assert (first["val/reward"], second["val/hard/reward"]) == (2.0, 9.0)
    assert [name for name in first if not name.startswith("val/") or name.startswith("val/hard/")] == []
    assert [name for name in second if not name.startswith("val/hard/")] == []


async def test_a_smoke_test_is_told_to_nobody_who_keeps_it(workshop: Any, tmp_path: Path) -> None:
    """The curve of the run must not hold a run that never was."""
    tracker = JsonlTracker(tmp_path / "events.jsonl")

    await workshop.trainer(trackers=(tracker, workshop.told)).smoke()

    assert (tracker.path.exists(), workshop.told.events) == (False, [])
