"""Schedules that are due at named moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checks import check_count
from artkit.errors import ConfigurationError
from artkit.validation.schedule import ValidationSchedule

if TYPE_CHECKING:
    from artkit.validation.progress import Progress

__all__ = ["AtEnd", "AtStart", "AtSteps"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AtSteps(ValidationSchedule):
    """Due after the named training steps.

    Args:
        *steps: The backend's steps, each 1 or more; kept sorted, each once.

    Raises:
        ConfigurationError: If there are none, or one is no positive integer.

    >>> AtSteps(20, 5, 5)
    AtSteps(5, 20)
    """

    steps: tuple[int, ...]

    def __init__(self, *steps: int) -> None:
        if not steps:
            raise ConfigurationError("AtSteps() names no step", "name the steps, as in AtSteps(10, 50); or use Never()")
        hint = "training steps count from 1; AtStart() validates before the first"
        for step in steps:
            check_count("AtSteps", "steps", step, hint=hint)
        object.__setattr__(self, "steps", tuple(sorted(set(steps))))

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.step in self.steps

    def __repr__(self) -> str:
        return f"AtSteps({', '.join(map(str, self.steps))})"


@dataclass(frozen=True, slots=True)
class AtStart(ValidationSchedule):
    """Due before the first training step: what the model can do untrained.

    The start of a run lasts until its first batch is done, trained on or found empty: a session that begins before that
    asks, and what was validated already is not validated again. A run that begins on a trained model has a start too.
    """

    def due(self, progress: Progress) -> bool:
        # A loop of one's own may know the step alone: at 0 nothing was trained.
        return progress.is_start or progress.step == 0


@dataclass(frozen=True, slots=True)
class AtEnd(ValidationSchedule):
    """Due after the last training step, so that the final model is always validated."""

    def due(self, progress: Progress) -> bool:
        return not progress.is_start and progress.is_last
