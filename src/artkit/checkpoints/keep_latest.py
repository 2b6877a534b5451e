"""Policies that need no metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checkpoints.decision import Verdict
from artkit.checkpoints.policy import CheckpointPolicy
from artkit.checks import check_count

if TYPE_CHECKING:
    from artkit.checkpoints.metric_history import MetricHistory

__all__ = ["KeepAll", "KeepEvery", "KeepLatest"]


@dataclass(frozen=True, slots=True)
class KeepLatest(CheckpointPolicy):
    """Keeps the `count` newest checkpoints.

    Args:
        count: How many, 1 or more.

    Raises:
        ConfigurationError: If `count` is no positive integer.
    """

    count: int = 1

    def __post_init__(self) -> None:
        check_count("KeepLatest", "count", self.count)

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return the verdicts by age."""
        del history
        latest = frozenset(sorted(saved)[-self.count :])
        kept = Verdict(keep=True, why=f"among the latest {self.count}")
        rest = Verdict(keep=False, why=f"not among the latest {self.count}")
        return {step: kept if step in latest else rest for step in saved}


@dataclass(frozen=True, slots=True, repr=False)
class KeepEvery(CheckpointPolicy):
    """Keeps the checkpoints at multiples of `steps`, step 0 included.

    Args:
        steps: The interval in training steps, 1 or more.

    Raises:
        ConfigurationError: If `steps` is no positive integer.
    """

    steps: int

    def __post_init__(self) -> None:
        check_count("KeepEvery", "steps", self.steps)

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return the verdicts by step number."""
        del history
        kept = Verdict(keep=True, why=f"a multiple of {self.steps}")
        rest = Verdict(keep=False, why=f"no multiple of {self.steps}")
        return {step: rest if step % self.steps else kept for step in saved}

    def __repr__(self) -> str:
        return f"KeepEvery({self.steps})"


@dataclass(frozen=True, slots=True)
class KeepAll(CheckpointPolicy):
    """Keeps every checkpoint."""

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return one verdict for all."""
        del history
        return dict.fromkeys(saved, Verdict(keep=True, why="all are kept"))
