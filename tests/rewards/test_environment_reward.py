"""The environment's own reward."""

from __future__ import annotations

import math

import art
import pytest

from artkit.episodes import Episode
from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import EnvironmentReward


async def test_an_episode_is_worth_what_its_environment_gave() -> None:
    """Scoring again gives the same, whatever the reward has become."""
    group = art.TrajectoryGroup([Episode(environment_reward=1.5), Episode(environment_reward=0.0, reward=7.0)])
    reward = EnvironmentReward()
    await reward(await reward(group))

    assert [episode.reward for episode in group.trajectories] == [1.5, 0.0]


async def test_a_trajectory_without_an_environment_is_unscored() -> None:
    """Its 0.0 would be nobody's judgement."""
    group = art.TrajectoryGroup([art.Trajectory(), Episode(environment_reward=1.0)])
    await EnvironmentReward()(group)

    assert [member.reward for member in group.trajectories] == [1.0]
    assert "member 0: not scored: a Trajectory without environment_reward" in group.exceptions[0].message


async def test_a_sum_that_is_not_finite_is_an_error() -> None:
    """An environment divided by zero."""
    group = art.TrajectoryGroup([Episode(environment_reward=math.inf)])

    with pytest.raises(RewardError, match="member 0: reward inf is not finite"):
        await EnvironmentReward(on_error="raise")(group)


def test_settings_are_checked_and_shown() -> None:
    """When the adapter is made."""
    with pytest.raises(ConfigurationError, match="on_error='ignore' is unknown"):
        EnvironmentReward(on_error="ignore")
    assert repr(EnvironmentReward()) == "EnvironmentReward(on_error='drop_member')"
