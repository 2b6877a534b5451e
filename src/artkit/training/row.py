"""The trainer's own numbers in a row: the counts beside what episodes and the backend report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art

    from artkit.rollouts import GatherCounts

__all__ = ["add_counts", "batch_counts", "is_own_metric"]

_OWN = frozenset({"batch_index", "epoch", "recovered", "reward_incomplete", "scenarios", "scored_share"})
_OWN_PREFIXES = ("groups_", "rollouts_")


def is_own_metric(name: str) -> bool:
    """Whether the trainer gives rows a metric of this name; an episode's own of that name is logged under another.

    >>> is_own_metric("rollouts_lost_tool"), is_own_metric("is_high")
    (True, False)
    """
    return name in _OWN or name.startswith(_OWN_PREFIXES)


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
