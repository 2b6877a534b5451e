"""The row of a training step: the counts beside what the backend reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art

    from artkit.rollouts import GatherCounts

__all__ = ["add_counts", "batch_counts"]


def batch_counts(
    counts: GatherCounts,
    *,
    submitted: int,
    trainable: int,
    dropped: Sequence[tuple[art.TrajectoryGroup, str]],
) -> dict[str, float]:
    """Return what became of a batch's rollouts and groups.

    Args:
        counts: How the rollouts ended.
        submitted: Groups that were gathered.
        trainable: Groups that are trained on.
        dropped: What the filters dropped, each with its reason.
    """
    row: Counter[str] = Counter(
        {
            "groups_submitted": submitted,
            "groups_trainable": trainable,
            "groups_dropped": len(dropped),
            "rollouts_started": counts.started,
            "rollouts_grouped": counts.grouped,
        }
    )
    for kind, count in counts.lost.items():
        row[f"rollouts_lost_{kind}"] += count
    for kind, count in counts.failed.items():
        row[f"rollouts_failed_{kind}"] += count
    return {name: float(value) for name, value in row.items()}


def add_counts(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Return the sums, zeros included.

    >>> add_counts({"groups_submitted": 2, "groups_trainable": 0}, {"groups_submitted": 1})
    {'groups_submitted': 3, 'groups_trainable': 0}
    """
    return {name: some.get(name, 0) + others.get(name, 0) for name in (*some, *(others.keys() - some.keys()))}
