"""Stops when a run has taken its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checks import check_positive
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["MaxMinutes"]


@dataclass(frozen=True, slots=True, repr=False)
class MaxMinutes(StopCondition):
    """Stops after the step in which the run has taken `minutes`, earlier sessions of it included.

    At which step that is differs from run to run, and with it where a resumed run stops.

    Args:
        minutes: The limit, above 0.

    Raises:
        ConfigurationError: If `minutes` is no positive number.
    """

    minutes: float

    def __post_init__(self) -> None:
        check_positive(
            "MaxMinutes", "minutes", self.minutes, "MaxMinutes(minutes=1) is one, and any number above 0 works"
        )

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return how long the run has taken, or None."""
        minutes = progress.elapsed_s / 60
        if minutes < self.minutes:
            return None
        return f"the run has taken {minutes:.1f} minutes, and {self.minutes:g} were allowed"

    def __repr__(self) -> str:
        return f"MaxMinutes({self.minutes!r})"
