"""Schedules that repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checks import check_count, check_positive
from artkit.validation.schedule import ValidationSchedule

if TYPE_CHECKING:
    from artkit.validation.progress import Progress

__all__ = ["Every", "EveryEpoch", "EveryMinutes"]


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
        check_count("Every", "steps", self.steps, hint="Every(1) validates after each step, Never() not at all")

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.step > 0 and progress.step % self.steps == 0

    def __repr__(self) -> str:
        return f"Every({self.steps})"


@dataclass(frozen=True, slots=True)
class EveryEpoch(ValidationSchedule):
    """Due after the last training step of each epoch."""

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.is_epoch_end


@dataclass(frozen=True, slots=True, repr=False)
class EveryMinutes(ValidationSchedule):
    """Due after the first training step that ends `minutes` or more into the run, after the next multiple, and so on.

    It is due where the run's clock crossed a multiple of `minutes` since the training step before:
    `floor(elapsed / minutes) > floor(previous / minutes)`. A step that takes several intervals is validated once. The
    clock goes on where an earlier session of the run stopped; unlike steps, it reads differently in every run, so a
    resumed run does not validate where an uninterrupted one would have.

    Validation takes time from the same clock: one that takes longer than the interval makes every step due.

    Args:
        minutes: The interval in minutes, positive; `EveryMinutes(0.5)` is 30 seconds.

    Raises:
        ConfigurationError: If `minutes` is no positive finite number.

    >>> from artkit.validation import Progress
    >>> EveryMinutes(30).due(Progress(step=7, previous_elapsed_s=1790, elapsed_s=1810))
    True
    """

    minutes: float

    def __post_init__(self) -> None:
        check_positive("EveryMinutes", "minutes", self.minutes, "EveryMinutes(0.5) is every 30 seconds")

    def due(self, progress: Progress) -> bool:
        interval_s = self.minutes * 60
        return not progress.is_start and progress.elapsed_s // interval_s > progress.previous_elapsed_s // interval_s

    def __repr__(self) -> str:
        return f"EveryMinutes({self.minutes})"
