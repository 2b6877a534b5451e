"""Watching what the reward rewards while a run goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from artkit.rewards import reward_figures
from artkit.rewards.doctor.figures import reply_length

if TYPE_CHECKING:
    import art

__all__ = ["RewardWatch"]

_MIN_MEMBERS = 64


class RewardWatch:
    """Warns from the reward doctor's figures of the newest groups, of each thing once until it is over.

    Looked at are the newest batches that make up at least 64 scored members: a step may hold too few to say anything.

    Args:
        weights: The weights of a `WeightedReward`; empty for any other reward.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._batches: deque[Sequence[art.TrajectoryGroup]] = deque()
        self._known: frozenset[str] = frozenset()

    def note(self, groups: Sequence[art.TrajectoryGroup]) -> list[str]:
        """Take in the scored groups of one batch, before any is dropped; return what to warn of, in words."""
        self._batches.append([_outlined(group) for group in groups])
        members = sum(map(_members, self._batches))
        while members - _members(self._batches[0]) >= _MIN_MEMBERS:
            members -= _members(self._batches.popleft())
        if members < _MIN_MEMBERS:
            return []
        findings = reward_figures((group for batch in self._batches for group in batch), weights=self._weights).findings
        new = [text for name, text in findings.items() if name not in self._known]
        self._known = frozenset(findings)
        return [f"the last {members} rewards: {text}" for text in new]


def _outlined(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    """Return a group that has the same figures and does not keep the episodes in memory."""
    import art

    return art.TrajectoryGroup(
        [
            art.Trajectory(
                messages_and_choices=[{"role": "assistant", "content": "-" * reply_length(member)}],
                reward=member.reward,
                metrics=dict(member.metrics),
            )
            for member in group.trajectories
        ]
    )


def _members(groups: Sequence[art.TrajectoryGroup]) -> int:
    return sum(len(group.trajectories) for group in groups)
