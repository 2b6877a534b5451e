"""Which steps of the policy a group was sampled from."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art

__all__ = ["policy_ages", "stamp"]

_FIRST, _LAST = "policy_step", "policy_step_last"


def stamp(groups: Iterable[art.TrajectoryGroup], *, first: int, last: int) -> None:
    """Write into the metadata of groups from which steps of the policy they were sampled.

    Args:
        groups: What was gathered.
        first: The step when that began.
        last: The step when that was over; written where it is another one.
    """
    for group in groups:
        group.metadata[_FIRST] = first
        if last != first:
            group.metadata[_LAST] = last


def policy_ages(groups: Iterable[art.TrajectoryGroup], step: int) -> dict[str, float]:
    """Return how many steps older than the weights the groups are, by `policy_age_mean` and `policy_age_max`.

    Args:
        groups: What is trained on, each as old as the oldest weights that may have been sampled from.
        step: The step of the weights.
    """
    stamps = [group.metadata.get(_FIRST) for group in groups]
    ages = [step - first for first in stamps if isinstance(first, int)]
    return {"policy_age_mean": fmean(ages), "policy_age_max": float(max(ages))} if ages else {}
