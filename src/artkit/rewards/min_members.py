"""Drops the groups that have lost too many of their members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.errors import ConfigurationError
from artkit.rewards.group_filter import GroupFilter

if TYPE_CHECKING:
    import art

__all__ = ["MinMembers"]


@dataclass(frozen=True, slots=True, repr=False)
class MinMembers(GroupFilter):
    """Drops a group with fewer than `count` scored members: the mean of a few is a poor baseline for the others.

    Attributes:
        count: The fewest members that are worth training on, at least 1.

    Raises:
        ConfigurationError: `count` is no positive int.
    """

    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise ConfigurationError(f"count={self.count!r} is no positive int", "give at least 1; 2 can be compared")

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        """Return how many members there are, if too few, or None."""
        size = len(group.trajectories)
        return f"{size} of at least {self.count} members" if size < self.count else None

    def __repr__(self) -> str:
        return f"MinMembers({self.count})"
