"""Drops the groups that GRPO can learn nothing from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.rewards.group_filter import GroupFilter
from artkit.rewards.score import ROUNDING

if TYPE_CHECKING:
    import art

__all__ = ["DropZeroVariance"]


@dataclass(frozen=True, slots=True)
class DropZeroVariance(GroupFilter):
    """Drops a group whose rewards are all equal, for its advantages are all 0: reward - mean of the group.

    Rewards closer than 1e-9 are equal: dividing such a difference by the group's standard deviation would make a
    rounding error the only thing that is learned. A group of one is equal to itself. A reward that is not finite makes
    every advantage of its group NaN, so that group is dropped too.
    """

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        """Return why there is nothing to learn, or None."""
        rewards = [trajectory.reward for trajectory in group.trajectories]
        if not rewards:
            return "no member was scored"
        bad = next((number for number, reward in enumerate(rewards) if not math.isfinite(reward)), None)
        if bad is not None:
            return f"the reward of member {bad} is {rewards[bad]}"
        if len(rewards) == 1:
            return "one member has no sibling to differ from"
        if max(rewards) - min(rewards) <= ROUNDING:
            return f"all {len(rewards)} rewards are {rewards[0]:g}"
        return None
