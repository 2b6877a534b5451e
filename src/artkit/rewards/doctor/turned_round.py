"""A reward that sees the members of a group in the opposite order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.rewards.adapter import Answer, RewardAdapter
from artkit.rewards.weighted_reward import WeightedReward

if TYPE_CHECKING:
    import art

__all__ = ["turned_round"]


def turned_round(reward: RewardAdapter) -> RewardAdapter:
    """Return `reward` with the order of presentation reversed; what it answers is still in the order of the members.

    A reward that chooses the order itself, such as RULER's, does it by its own `reversed_order()`.
    """
    if isinstance(reward, WeightedReward):
        parts = {name: (turned_round(part), weight) for name, (part, weight) in reward.parts.items()}
        return WeightedReward(parts, on_unscored=reward.on_unscored, on_error=reward.on_error)
    own = reward.reversed_order()
    return _TurnedRound(reward) if own is None else own


class _TurnedRound(RewardAdapter):
    def __init__(self, reward: RewardAdapter) -> None:
        self._reward = reward
        self.relative = reward.relative
        self.on_error = reward.on_error

    async def score(self, group: art.TrajectoryGroup) -> list[Answer]:
        turned = group.model_copy(update={"trajectories": group.trajectories[::-1]})
        return list(await self._reward.score(turned))[::-1]
