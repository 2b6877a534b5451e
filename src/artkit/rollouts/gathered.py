"""What a gather brought back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from artkit.rollouts.counts import GatherCounts

if TYPE_CHECKING:
    import art

    from artkit.rollouts.events import LoopHeldUp

__all__ = ["GatheredGroups"]


@dataclass(frozen=True)
class GatheredGroups:
    """What a gather brought back.

    Attributes:
        groups: One per scenario, in input order, members in order; a group whose rollouts all failed is empty and
            holds their exceptions.
        lost: Episodes that left their group, and are neither scored nor trained on.
        counts: How the rollouts ended.
        abandoned: The rollouts that were given up while they ran on, by scenario and member.
        held_up: The longest time that the event loop was held up, where that was more than a second.
    """

    groups: list[art.TrajectoryGroup] = field(default_factory=list)
    lost: list[art.Trajectory] = field(default_factory=list)
    counts: GatherCounts = field(default_factory=GatherCounts)
    abandoned: tuple[str, ...] = ()
    held_up: LoopHeldUp | None = None

    def __add__(self, other: GatheredGroups) -> GatheredGroups:
        held_up = [one for one in (self.held_up, other.held_up) if one is not None]
        return GatheredGroups(
            [*self.groups, *other.groups],
            [*self.lost, *other.lost],
            self.counts + other.counts,
            self.abandoned + other.abandoned,
            max(held_up, key=lambda one: one.seconds, default=None),
        )
