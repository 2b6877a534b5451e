"""A step that waits: it says so, and its deadline ends it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from artkit import Action, ConsoleTracker, Environment, Rollout, ScenarioOrder, StepResult, read_groups
from artkit.rollouts import GatherWaits, LoopHeldUp
from artkit.testing import DiaryBackend
from artkit.tracking import LoopBlocked, StepFinished, Waiting
from artkit.training.broadcast import Broadcast


class Scored(Environment[Any]):
    """Every second episode is worth something; "b" is what each test makes of it."""

    played = 0

    async def reset(self, scenario: Any) -> str:
        self.name = scenario.id
        return str(scenario.id)

    async def step(self, action: Action) -> StepResult:
        if self.name == "b":
            await self.on_b()
        type(self).played += 1
        return StepResult(done=True, reward=self.played % 2)

    async def on_b(self) -> None:
        """Do nothing."""


def order(workshop: Any) -> Any:
    return ScenarioOrder(workshop.scenarios("a", "b", "c", "d"), shuffle=False)


async def test_a_step_goes_on_at_its_deadline_with_what_there_is(workshop: Any) -> None:
    """One scenario that hangs must not hold the run for as long as an episode may take."""

    class Hanging(Scored):
        async def on_b(self) -> None:
            await asyncio.Event().wait()

    # The first request of a process imports for seconds, which counts like any other wait.
    model = workshop.model(name="other")
    await model.register(DiaryBackend(workshop.server))
    await Rollout(Scored)(model, workshop.scenarios("a")[0])
    settings = {"step_timeout_s": 2.0, "check_environment": False}
    report = await workshop.trainer(rollout=Rollout(Hanging), train=order(workshop), settings=settings).run()

    first, second = workshop.rows("train")
    assert report.reason == "finished: all batches were trained"
    assert workshop.trained_ids() == [["a"], ["c", "d"]]
    assert (first["train/rollouts_lost_environment"], "train/rollouts_lost_environment" in second) == (2, False)
    _, lost = read_groups(workshop.model_dir / "artkit" / "recordings" / "batch-000000.jsonl")
    assert {(one.metadata["scenario_id"], str(one.stop_reason), one.metrics["turns"]) for one in lost} == {  # type: ignore[attr-defined]
        ("b", "timeout", 1)
    }


async def test_waiting_for_data_is_no_time_of_the_rollouts(workshop: Any) -> None:
    """Data that comes slowly would leave them none."""

    async def slowly() -> Any:
        for scenario in workshop.scenarios("a", "c"):
            await asyncio.sleep(1.2)
            yield scenario

    settings = {"step_timeout_s": 2.0, "check_environment": False, "max_steps": 1}
    report = await workshop.trainer(rollout=Rollout(Scored), train=slowly(), settings=settings).run()

    assert report.reason == "finished: max_steps=1 were trained"
    assert workshop.trained_ids() == [["a", "c"]]


async def test_a_loop_that_was_held_up_is_told_and_logged(workshop: Any) -> None:
    """It costs every rollout of the step, and nothing else shows it."""

    class Sleepy(Scored):
        played = 0

        async def on_b(self) -> None:
            if not self.played:
                time.sleep(1.2)  # noqa: ASYNC251  # the mistake

    settings = {"check_environment": False, "max_concurrent": 1}
    trainer = workshop.trainer(
        rollout=Rollout(Sleepy),
        train=ScenarioOrder(workshop.scenarios("b", "a"), shuffle=False),
        settings=settings,
    )
    await trainer.run()

    [blocked] = workshop.told.of(LoopBlocked)
    [step] = workshop.told.of(StepFinished)
    assert blocked.seconds >= 1
    assert blocked.where.endswith(" in on_b")
    assert step.metrics["train/loop_blocked_max_s"] == blocked.seconds


def test_trackers_are_told_for_which_scenarios_a_step_waits(capsys: Any) -> None:
    """Of a step that stands still, people want to know whom to ask."""
    tell = Broadcast([ConsoleTracker()])

    tell.notice(GatherWaits(scenario_ids=("s3", "s7"), running=3, seconds=120.0))
    tell.notice(LoopHeldUp(seconds=2.25, where="game.py:12 in step"))
    tell(Waiting(scenarios=tuple("abcdefg"), running=7, seconds=60.0))
    tell.notice(GatherWaits(scenario_ids=("s3",), running=1, seconds=60.0, scoring=("s1", "s1")))
    tell.notice(GatherWaits(scenario_ids=(), running=0, seconds=240.0, scoring=tuple("abcdefg")))
    tell(Waiting(scenarios=(), running=0, seconds=60.0, scoring=("s1",)))
    tell(LoopBlocked(seconds=1.0))

    assert capsys.readouterr().out.splitlines() == [
        "waiting: no rollout has ended for 2:00; still playing 3 rollouts of s3, s7",
        "warning: the event loop was held up for 2.2 s by game.py:12 in step",
        "waiting: no rollout has ended for 1:00; still playing 7 rollouts of a, b, c, d, e, …",
        "waiting: no rollout has ended for 1:00; still playing 1 rollout of s3; 2 groups are being scored, of s1",
        "waiting: no group was scored for 4:00; 7 groups are being scored, of a, b, c, d, e, …",
        "waiting: no group was scored for 1:00; 1 group is being scored, of s1",
        "warning: the event loop was held up for 1.0 s by many rollouts at once",
    ]
