"""Stop conditions in a run, and the two that always apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import art
import pytest

from artkit import (
    ConfigurationError,
    Every,
    MaxCost,
    MaxMinutes,
    NoImprovement,
    NothingToLearn,
    RewardCollapse,
    ScenarioOrder,
    TargetReached,
    Validation,
)
from artkit.testing import DiaryBackend, choice

NAMES = [f"{number:02}" for number in range(60)]


class Diverging(DiaryBackend):
    """Reports a loss that is no number, at the second training."""

    loss: object = float("nan")

    async def train(self, model: Any, groups: Any, *, learning_rate: float = 0.0) -> Any:
        result = await super().train(model, groups, learning_rate=learning_rate)
        if result.step == 2:
            result.metrics["loss/train"] = self.loss
        return result


async def test_a_run_stops_when_validation_gets_no_better(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """It would go on for days, and keep its best checkpoint anyway."""
    workshop.answers.replies = {key: ["0", "2", "1", "1", "1", "1"] for key in "xy"}
    validation = held_out(schedule=Every(1))

    report = await workshop.trainer(
        validation=validation, stop_when=NoImprovement(2), settings={"num_epochs": 9, "groups_per_step": 1}
    ).run()

    assert report.reason == ("stopped: val/reward was best with 2 at step 2, and the 2 values since were no better")
    assert (report.steps, report.best_step) == (4, 2)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (TargetReached(0.5, "train/reward"), "stopped: train/reward was 0.5 at step 1"),
        (MaxMinutes(1e-9), "stopped: the run has taken"),
        (NoImprovement(9, "train/reward") | MaxMinutes(600), None),
    ],
)
async def test_the_report_says_which_condition_ended_the_run(workshop: Any, condition: Any, reason: str | None) -> None:
    """Whoever comes back to a stopped run asks why."""
    report = await workshop.trainer(stop_when=condition).run()

    assert report.reason.startswith(reason or "finished: all batches were trained")


async def test_a_run_that_was_stopped_stops_again_at_once(workshop: Any) -> None:
    """The conditions are pure: what was logged says the same after a restart."""
    condition = TargetReached(0.5, "train/reward") | MaxCost(1_000.0)
    first = await workshop.trainer(stop_when=condition).run()

    again = await workshop.trainer(stop_when=condition).run()

    assert first.reason.startswith("stopped: train/reward")
    assert again.reason == f"nothing to do: {first.reason}"
    assert workshop.backend.calls("train") == ()


async def test_too_many_batches_without_anything_to_learn_stop_the_run(workshop: Any) -> None:
    """Without a filter they are trained on and change nothing; with one they are never trained on."""
    workshop.answers.replies = dict.fromkeys(NAMES, "1")
    settings = {"groups_per_step": 1, "max_empty_steps": 50}
    data = ScenarioOrder(workshop.scenarios(*NAMES), shuffle=False)

    report = await workshop.trainer(train=data, stop_when=NothingToLearn(4), settings=settings).run()
    assert report.reason.startswith("stopped: the last 4 batches taught nothing")
    assert report.steps == 0

    other = workshop.model(name="other")
    unfiltered = await workshop.trainer(
        model=other, train=data, filters=None, stop_when=NothingToLearn(4), settings=settings
    ).run()
    assert unfiltered.reason.startswith("stopped: the last 4 batches taught nothing")
    assert unfiltered.steps == 4


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
async def test_a_loss_that_is_no_number_stops_the_run_and_every_resume_of_it(workshop: Any, loss: float) -> None:
    """The weights are broken: each further step would cost money and teach nothing."""
    backend = Diverging(workshop.server)
    backend.loss = loss

    first = await workshop.trainer(backend=backend, settings={"num_epochs": 3}).run()
    again = await workshop.trainer(settings={"num_epochs": 3}).run()

    reason = f"stopped: loss/train is {loss} in step 2, so its weights cannot be trusted"
    assert first.reason.startswith(reason)
    assert again.reason.startswith(f"nothing to do: {reason}")
    assert [row["step"] for row in workshop.rows("train")] == [1, 2]


def collapsing(rise: int, fall: int) -> Callable[..., Any]:
    """A rollout of a policy that learns after `rise` rollouts, and forgets everything after `fall`."""
    played: list[int] = []

    async def play(model: Any, scenario: Any) -> art.Trajectory:
        number = len(played)
        played.append(number)
        level = 0.4 if number < rise else 0.8 if number < fall else 0.0
        messages = [{"role": "user", "content": "go"}, choice("gone")]
        return art.Trajectory(reward=level + 0.1 * (number % 2), messages_and_choices=messages)

    return play


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_reward_that_collapses_stops_the_run(workshop: Any, is_on: bool) -> None:
    """Unless that is turned off: the checkpoint of the good times is worth more than the rest of the money."""
    settings = {"groups_per_step": 1, "stop_on_collapse": is_on}
    report = await workshop.trainer(
        train=workshop.scenarios(*NAMES), rollout=collapsing(20, 60), settings=settings
    ).run()

    assert report.reason.startswith("stopped: train/reward collapsed: it began with" if is_on else "finished")


@pytest.mark.parametrize("shuffle", [True, False])
async def test_data_in_an_order_of_its_own_is_not_watched_for_a_collapse(workshop: Any, shuffle: bool) -> None:
    """The hard part after the easy one looks like one; whoever wants it asks for it."""
    data = ScenarioOrder(workshop.scenarios(*NAMES), shuffle=shuffle)
    settings = {"groups_per_step": 1}

    silent = await workshop.trainer(train=data, rollout=collapsing(20, 60), settings=settings).run()
    asked = await workshop.trainer(
        model=workshop.model(name="asked"),
        train=data,
        rollout=collapsing(20, 60),
        stop_when=RewardCollapse(),
        settings=settings,
    ).run()

    assert silent.reason.startswith("stopped: train/reward collapsed" if shuffle else "finished")
    assert asked.reason.startswith("stopped: train/reward collapsed")


async def test_a_metric_that_no_validation_will_log_is_refused(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """The run would never stop."""
    with pytest.raises(ConfigurationError, match=r"reads 'val/reward', which no validation will log"):
        await workshop.trainer(stop_when=NoImprovement(2)).run()
    with pytest.raises(ConfigurationError, match=r"reads 'val/hrad/reward'.*the validations log val/reward"):
        await workshop.trainer(stop_when=TargetReached(1.0, "val/hrad/reward"), validation=held_out()).run()
