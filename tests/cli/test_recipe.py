"""How the demo trains."""

from __future__ import annotations

import art

from artkit import Episode, Score
from artkit.cli.demo.recipe import Recipe, grade


async def test_an_episode_that_never_reached_the_desk_failed() -> None:
    """Left out of the mean, a reply that was cut off would make the others look better."""
    cut_off = Episode(metrics={"turns": 1})
    answered = Episode(metrics={"success": True, "malformed": 1}, environment_reward=0.9)

    assert await grade(cut_off) == Score(0.0, metrics={"success": False})
    assert await grade(answered) == Score(0.9, metrics={"success": True})


async def test_rewards_are_left_as_the_desk_paid_them() -> None:
    """The grade adds `success` and nothing else."""
    group = art.TrajectoryGroup([Episode(environment_reward=reward) for reward in (1.0, -0.1, 0.0)])

    await Recipe().reward(group)

    assert [episode.reward for episode in group.trajectories] == [1.0, -0.1, 0.0]
