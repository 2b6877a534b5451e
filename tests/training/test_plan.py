"""The plan: what will run, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from artkit import (
    ConfigurationError,
    EnvironmentReward,
    KeepAll,
    KeepBest,
    KeepLatest,
    Never,
    NoImprovement,
    RewardCollapse,
    Rollout,
    Sampling,
    Score,
    Validation,
)
from artkit.rewards import RewardAdapter

if TYPE_CHECKING:
    import art


class Beside(RewardAdapter):
    """A relative reward."""

    relative = True

    async def score(self, group: art.TrajectoryGroup) -> Sequence[Score]:
        return [Score(float(number)) for number in range(len(group.trajectories))]


def test_the_plan_says_what_will_run(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Reading it costs nothing; a run costs a night."""
    plan = workshop.trainer(validation=held_out(), settings={"num_epochs": 3}).plan()

    assert (plan.total_steps, plan.rollouts_per_step, plan.warnings) == (6, 4, ())
    assert str(plan).splitlines() == [
        "train: 4 scenarios, 3 epoch(s), 6 steps of 2 groups x 2 rollouts on DiaryBackend, learning rate 1e-05",
        f"reward: {EnvironmentReward()!r}; filter: DropZeroVariance()",
        "validate 'val': 2 scenarios x 1 rollouts, AtEnd()",
        f"stop before the end: {RewardCollapse()!r}",
        "checkpoints: KeepBest() | KeepLatest(), since validation has an absolute reward".replace(
            "KeepBest() | KeepLatest()", repr(KeepBest() | KeepLatest())
        ),
    ]


def test_the_plan_of_an_open_ended_source_knows_the_steps_from_max_steps(workshop: Any) -> None:
    """Such a source has no length."""
    plan = workshop.trainer(train=iter(workshop.scenarios("a")), settings={"max_steps": 7}).plan()

    assert plan.total_steps == 7
    assert plan.lines[0].startswith("train: an open-ended source, 7 steps")


@pytest.mark.parametrize(
    ("reward", "has_validation", "policy"),
    [
        (EnvironmentReward(), True, KeepBest() | KeepLatest()),
        (Beside(), True, KeepLatest(count=5)),
        (EnvironmentReward(), False, KeepAll()),
    ],
)
def test_the_default_checkpoint_policy_follows_from_the_validation(
    workshop: Any, held_out: Callable[..., Validation], reward: Any, has_validation: bool, policy: Any
) -> None:
    """The best step is known only where a value means the same at every step; and the plan says why."""
    plan = workshop.trainer(reward=reward, validation=held_out() if has_validation else None).plan()

    assert plan.lines[-1].startswith(f"checkpoints: {policy!r}, since ")


def test_a_validation_that_is_never_due_is_none_to_the_default_policy(
    workshop: Any, held_out: Callable[..., Validation]
) -> None:
    """It is for `evaluate()` alone; nobody has asked for a ranking."""
    plan = workshop.trainer(validation=held_out(schedule=Never())).plan()

    assert plan.lines[-1].startswith(f"checkpoints: {KeepAll()!r}, since nothing is validated")


def test_stopping_by_a_relative_reward_is_warned_about(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Its mean stays where it is however good the model gets."""
    plan = workshop.trainer(reward=Beside(), validation=held_out(), stop_when=NoImprovement(3)).plan()

    assert [text for text in plan.warnings if "goes by a relative reward" in text] != []


def test_ranking_by_a_relative_reward_is_warned_about(workshop: Any, held_out: Callable[..., Validation]) -> None:
    """Its mean says which sibling was better, not whether the model is."""
    plan = workshop.trainer(reward=Beside(), validation=held_out(), checkpoint_policy=KeepBest()).plan()

    assert [text for text in plan.warnings if "ranks by a relative reward" in text] != []


def test_a_group_of_one_is_warned_about(workshop: Any) -> None:
    """Its advantage is 0, so nothing is learned, and no error says so."""
    plan = workshop.trainer(settings={"rollouts_per_group": 1}).plan()

    assert len(plan.warnings) == 1
    assert "rollouts_per_group=1" in plan.warnings[0]


def test_sampling_away_from_temperature_1_is_warned_about(workshop: Any) -> None:
    """ART's importance ratios assume the distribution that was trained."""
    plan = workshop.trainer(rollout=Rollout(workshop.Numbers, sampling=Sampling(temperature=0.5))).plan()

    assert "temperature 0.5" in plan.warnings[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resume": "maybe"}, r"resume='maybe' is no choice .*auto, never, require"),
        ({"rollout": 3}, "rollout=3 is no rollout"),
        ({"reward": None}, "reward=None is no reward"),
        ({"train": []}, "scenarios"),
        ({"train": iter(())}, "max_steps=None sets none"),
        ({"train": 3}, "can't be iterated over"),
    ],
)
def test_a_part_that_cannot_work_is_refused_when_the_trainer_is_made(
    workshop: Any, changes: dict[str, Any], message: str
) -> None:
    """Before anything runs, and where the mistake is."""
    with pytest.raises(ConfigurationError, match=message):
        workshop.trainer(**changes)
