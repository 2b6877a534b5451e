"""The trainer's own numbers in a row: the counts beside what episodes and the backend report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art

    from artkit.training.filling import FilledBatch

__all__ = ["add_counts", "batch_counts", "is_own_metric", "partial_counts", "rewards_by_task"]

_OWN = frozenset({"batch_index", "epoch", "error_rate", "recovered", "scenarios", "scored_share", "truncated_rate"})
_OWN |= {"loop_blocked_max_s", "reward_high", "reward_incomplete", "reward_low", "reward_se"}
_OWN_PREFIXES = ("groups_", "pass@", "policy_age_", "reward_of_", "reward_vs_", "rollouts_")


def is_own_metric(name: str) -> bool:
    """Whether the trainer gives rows a metric of this name; an episode's own of that name is logged under another.

    >>> is_own_metric("rollouts_lost_tool"), is_own_metric("is_high")
    (True, False)
    """
    return name in _OWN or name.startswith(_OWN_PREFIXES)


def batch_counts(batch: FilledBatch) -> dict[str, float]:
    """Return what became of a batch's rollouts and groups: submitted + carried = trainable + dropped + kept."""
    counts = batch.sampled.counts
    row: Counter[str] = Counter(
        {
            "groups_submitted": len(batch.sampled.groups),
            "groups_trainable": len(batch.trainable),
            "groups_dropped": len(batch.dropped),
            "rollouts_started": counts.started,
            "rollouts_grouped": counts.grouped,
        }
    )
    for name, groups in (("groups_carried", batch.carried), ("groups_kept", batch.kept)):
        if groups:
            row[name] = len(groups)
    for name, count in batch.drop_counts.items():
        row[f"groups_dropped_{name}"] += count
    for name in ("alike", "late_results", "abandoned", "refilled", "replayed"):
        if count := getattr(counts, name):
            row[f"rollouts_{name}"] = count
    for kind, count in counts.lost.items():
        row[f"rollouts_lost_{kind}"] += count
    for kind, count in counts.failed.items():
        row[f"rollouts_failed_{kind}"] += count
    return {name: float(value) for name, value in row.items()}


def partial_counts(groups: Iterable[art.TrajectoryGroup]) -> dict[str, float]:
    """Return `<name>_count` for each metric that not every episode has: how many its mean is of."""
    members = [trajectory.metrics for group in groups for trajectory in group.trajectories]
    counts = Counter(name for metrics in members for name in metrics)
    return {
        f"{name}_count": float(count)
        for name, count in counts.items()
        if count < len(members) and f"{name}_count" not in counts
    }


def rewards_by_task(groups: Iterable[art.TrajectoryGroup]) -> dict[str, float]:
    """Return the mean reward of each task of a mixture, by `reward_of_<task>`; nothing where there are no tasks."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for group in groups:
        for trajectory in group.trajectories:
            if (task := trajectory.metadata.get("task")) is not None:
                rewards[f"reward_of_{task}"].append(float(trajectory.reward))
    return {name: fmean(values) for name, values in rewards.items()}


def add_counts(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Return the sums, zeros included.

    >>> add_counts({"groups_submitted": 2, "groups_trainable": 0}, {"groups_submitted": 1})
    {'groups_submitted': 3, 'groups_trainable': 0}
    """
    return {name: some.get(name, 0) + others.get(name, 0) for name in (*some, *(others.keys() - some.keys()))}
