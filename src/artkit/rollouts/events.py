"""What `gather_groups` tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.episodes import Episode, FailureRecord

__all__ = ["MemberFinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFinished:
    """One rollout of a group is over.

    Attributes:
        scenario_id: The scenario that was played.
        member: The position in the group, from 0.
        seconds: How long the rollout took, without the wait for its turn.
        episode: The episode, whole or partial; None where there is none.
        failure: What went wrong, or None.
    """

    scenario_id: str
    member: int
    seconds: float
    episode: Episode | None
    failure: FailureRecord | None
