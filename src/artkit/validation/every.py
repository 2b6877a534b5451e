"""Schedules that repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.validation.checks import check_positive
from artkit.validation.schedule import ValidationSchedule

if TYPE_CHECKING:
    from artkit.validation.progress import Progress

__all__ = ["Every", "EveryEpoch"]


@dataclass(frozen=True, slots=True, repr=False)
class Every(ValidationSchedule):
    """Due after every `steps` training steps, counted by the backend's own step: `Every(10)` at 10, 20, 30.

    Args:
        steps: The interval in training steps, 1 or more.

    Raises:
        ConfigurationError: If `steps` is no positive integer.
    """

    steps: int

    def __post_init__(self) -> None:
        check_positive("Every(steps)", self.steps, "Every(1) validates after each step, Never() not at all")

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.step > 0 and progress.step % self.steps == 0

    def __repr__(self) -> str:
        return f"Every({self.steps})"


@dataclass(frozen=True, slots=True)
class EveryEpoch(ValidationSchedule):
    """Due after the last training step of each epoch."""

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.is_epoch_end
