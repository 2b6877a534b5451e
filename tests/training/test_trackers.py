"""Trackers: what they are told, and that none costs a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import art
import pytest

from artkit import Every, Validation
from artkit.tracking import RolloutFinished, RunFinished, RunStarted, StepFinished, ValidationFinished, Warned


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
