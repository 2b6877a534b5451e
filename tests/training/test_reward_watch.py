"""Warnings from the reward doctor's figures while a run goes on."""

from __future__ import annotations

from typing import Any

import art
import pytest

from artkit import EnvironmentReward, ProgrammaticReward, WeightedReward
from artkit.testing import choice, episode
from artkit.tracking import Warned
from artkit.training.reward_watch import RewardWatch


def batch(*rewards: float, groups: int = 16, **metrics: float) -> list[art.TrajectoryGroup]:
    """Groups of members with these rewards, and replies of one length."""
    return [
        art.TrajectoryGroup([episode("q", choice("a"), reward=reward, metrics=dict(metrics)) for reward in rewards])
        for _ in range(groups)
    ]


def test_nothing_is_said_before_64_members() -> None:
    """Chance is enough to make a few of them alike."""
    watch = RewardWatch({})

    early = watch.note(batch(1.0, 1.0, 1.0, 1.0, groups=15))
    (text,) = watch.note(batch(1.0, groups=4))

    assert early == []
    assert text.startswith("the last 64 rewards: all 64 rewards are 1: nothing can be learned from them; give tasks")


def test_a_thing_is_told_once_until_it_is_over() -> None:
    """A line at every step would be read by nobody."""
    watch = RewardWatch({})
    equal, varied = batch(1.0, 1.0, 1.0, 1.0), batch(0.0, 1.0, 0.0, 1.0)

    told = [len(watch.note(groups)) for groups in (equal, equal, varied, equal, equal)]

    assert told == [1, 0, 0, 1, 0]


def test_batches_that_are_too_old_are_forgotten() -> None:
    """What a reward was like long ago says nothing about it now."""
    watch = RewardWatch({})
    watch.note(batch(0.0, 1.0, 0.0, 1.0))

    (text,) = watch.note(batch(0.0, 0.0, 0.0, 0.0))

    assert text.startswith("the last 64 rewards: all 64 rewards are 0: ")


@pytest.mark.parametrize(
    ("length_pays", "text"), [(True, "reward and length correlate by +"), (False, "part 'loud' makes 100% of")]
)
async def test_the_trainer_warns_of_what_the_reward_really_rewards(workshop: Any, length_pays: bool, text: str) -> None:
    """Days may pass before somebody looks at the replies."""
    names = [f"{number:02}" for number in range(16)]
    long, short = ("111111", "0") if length_pays else ("1", "0")
    workshop.answers.replies = {key: [short, long, short, long] for key in names}
    loud = ProgrammaticReward(lambda episode: float(episode.environment_reward > 0))
    still = ProgrammaticReward(lambda episode: 0.5)
    reward = EnvironmentReward() if length_pays else WeightedReward({"loud": (loud, 1.0), "still": (still, 1.0)})

    await workshop.trainer(
        train=workshop.scenarios(*names), reward=reward, settings={"groups_per_step": 8, "rollouts_per_group": 4}
    ).run()

    assert [text in event.text for event in workshop.told.of(Warned)] == [True]
