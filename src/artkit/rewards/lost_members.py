"""What a group remembers of the members that left it: how many were lost, by the kind of their failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.episodes import FailureKind

if TYPE_CHECKING:
    import art

__all__ = ["lost_members", "note_lost"]

_PREFIX = "lost_"


def note_lost(group: art.TrajectoryGroup, kind: FailureKind) -> None:
    """Count one more member that left `group`, in its metadata: its exceptions do not say whose failure they were."""
    count = group.metadata.get(f"{_PREFIX}{kind}", 0)
    group.metadata[f"{_PREFIX}{kind}"] = count + 1 if isinstance(count, int) else 1


def lost_members(group: art.TrajectoryGroup) -> dict[FailureKind, int]:
    """Return how many members left `group`, by the kind of their failure; kinds without any are left out."""
    counts = {kind: group.metadata.get(f"{_PREFIX}{kind}", 0) for kind in FailureKind}
    return {kind: count for kind, count in counts.items() if isinstance(count, int) and count > 0}
