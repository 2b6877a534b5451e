"""The environment's own reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.rewards.adapter import Answer, OnError, RewardAdapter, check_on_error
from artkit.rewards.score import Score

if TYPE_CHECKING:
    import art

__all__ = ["EnvironmentReward"]


class EnvironmentReward(RewardAdapter):
    """Rewards each episode with the sum of its step rewards, as the rollout remembered it in `environment_reward`.

    Scoring again gives the same, for the sum is kept apart from `reward`. A trajectory that no environment was played
    for has none, and is left unscored.

    Args:
        on_error: What a sum that is not finite leads to.
    """

    def __init__(self, *, on_error: OnError = "drop_member") -> None:
        check_on_error(on_error)
        self.on_error = on_error

    async def score(self, group: art.TrajectoryGroup) -> list[Answer]:
        """Return what each episode remembers."""
        return [_answer(trajectory) for trajectory in group.trajectories]

    def __repr__(self) -> str:
        return f"EnvironmentReward(on_error={self.on_error!r})"


def _answer(trajectory: art.Trajectory) -> Score:
    reward = getattr(trajectory, "environment_reward", None)
    if reward is None:
        name = type(trajectory).__name__
        return Score(None, explanation=f"a {name} without environment_reward was not played in an Environment")
    return Score(reward)
