"""What a trainer's parts must be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import art
import pytest

from artkit import (
    ConfigurationError,
    Environment,
    KeepBest,
    RewardAdapter,
    Rollout,
    Score,
    Trainer,
    Validation,
    number_match,
    prune_checkpoints,
)
from artkit.testing import DiaryBackend
from artkit.tracking import ConsoleTracker


class Custom(RewardAdapter):
    """A reward of the user's own."""

    async def score(self, group: art.TrajectoryGroup) -> Sequence[Score]:
        return [Score(1.0) for _ in group.trajectories]


class Plain(RewardAdapter):
    """A reward of somebody who forgot a word."""

    def score(self, group: art.TrajectoryGroup) -> Any:
        return [Score(1.0) for _ in group.trajectories]


class GuessEnv(Environment[Any]):
    """An environment of the user's own."""


def play(model: Any, scenario: Any) -> art.Trajectory:
    return art.Trajectory(messages_and_choices=[], reward=0.0)


async def play_async(model: Any, scenario: Any) -> art.Trajectory:
    return play(model, scenario)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("backend", DiaryBackend, r"DiaryBackend is a class, not an object .*give DiaryBackend\("),
        ("backend", 5, "has no method train .*TorchBackend"),
        ("rollout", GuessEnv, r"GuessEnv is an environment.*give Rollout\(GuessEnv\)"),
        ("rollout", Rollout, r"give Rollout\("),
        ("rollout", play, "is no rollout that can be awaited .*async def"),
        ("rollout", None, "rollout=None is no rollout"),
        ("reward", Custom, r"give Custom\("),
        ("reward", 1.0, "reward=1.0 is no reward that can be called .*RewardAdapter"),
        ("reward", number_match(), r"is a grader of one episode.*give ProgrammaticReward\(number_match\("),
        ("reward", number_match, r"number_match makes a grader.*give ProgrammaticReward\(number_match\(…\)\)"),
        ("reward", Plain(), r"Plain\.score cannot be awaited .*make it `async def score"),
        ("validation", [1, 2], "of type int, not Validation .*give Validation"),
        ("validation", "val", "validation='val' is no Validation .*give Validation"),
        ("validation", 5, "validation=5 is no Validation .*give Validation"),
        ("checkpoint_policy", "best", "checkpoint_policy='best' is no checkpoint policy .*KeepBest"),
        ("checkpoint_policy", KeepBest, r"give KeepBest\("),
        ("filters", 3, "filters=3 is no group filter .*DropZeroVariance"),
        ("stop_when", 5, "stop_when=5 is no stop condition .*or a function of"),
        ("trackers", ConsoleTracker(), "is no sequence of trackers .*list"),
        ("trackers", "x", "trackers='x' is no sequence of trackers .*list"),
        ("trackers", ["x"], "tracker='x' is no tracker: it has no method handle .*ConsoleTracker"),
        ("trackers", [ConsoleTracker], r"give ConsoleTracker\("),
    ],
)
def test_a_part_that_cannot_be_what_it_must_is_refused_with_what_can(
    workshop: Any, part: str, value: object, message: str
) -> None:
    """Found in the middle of a run it would cost that run, and say less."""
    with pytest.raises(ConfigurationError, match=message):
        workshop.trainer(**{part: value})


async def test_no_backend_and_no_settings_are_refused(workshop: Any) -> None:
    """None and a dict are what is tried first."""
    parts = {"model": workshop.model(), "rollout": play_async, "train": workshop.scenarios("a"), "reward": Custom()}

    with pytest.raises(ConfigurationError, match="backend=None is no backend"):
        Trainer(**parts, backend=None)
    with pytest.raises(ConfigurationError, match=r"settings=\{\} is no TrainerSettings .*TrainerSettings\("):
        Trainer(**parts, backend=DiaryBackend(workshop.server), settings={})  # type: ignore[arg-type]


def test_scenarios_in_place_of_a_validation_are_refused(workshop: Any) -> None:
    """The likeliest slip: `validation=tasks[32:]`."""
    with pytest.raises(
        ConfigurationError, match=r"of type PromptScenario, not Validation .*give Validation\(scenarios\)"
    ):
        workshop.trainer(validation=workshop.scenarios("x", "y"))


def test_whatever_may_be_awaited_is_a_rollout(workshop: Any) -> None:
    """A callable object cannot be known to be async, and a decorator may hide that a function is."""

    @functools.wraps(play_async)
    def plain_around_async(*args: Any) -> Any:
        return play_async(*args)

    @functools.wraps(play)
    async def async_around_plain(*args: Any) -> Any:
        return play(*args)

    for rollout in (play_async, plain_around_async, async_around_plain, functools.partial(play_async)):
        workshop.trainer(rollout=rollout)


def test_a_validation_s_parts_are_checked_like_the_trainer_s(held_out: Callable[..., Validation]) -> None:
    """They are used in the same places."""
    for part, value, message in (
        ("schedule", 5, "schedule=5 is no validation schedule .*Every"),
        ("rollout", GuessEnv, r"give Rollout\(GuessEnv\)"),
        ("reward", Custom, r"give Custom\("),
    ):
        with pytest.raises(ConfigurationError, match=message):
            held_out(**{part: value})


async def test_pruning_by_what_is_no_policy_is_refused(workshop: Any) -> None:
    """Before a checkpoint is looked at."""
    with pytest.raises(ConfigurationError, match="checkpoint_policy='x' is no checkpoint policy"):
        await prune_checkpoints(workshop.model(), "x")  # type: ignore[arg-type]
