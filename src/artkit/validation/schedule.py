"""The validation schedule: one pure question, and `|`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.validation.progress import Progress

__all__ = ["AnySchedule", "ValidationSchedule"]


class ValidationSchedule(ABC):
    """Says when to validate.

    Pure: the answer follows from the progress alone, and asking twice changes nothing. So a resumed run validates where
    an uninterrupted one does, unless the schedule goes by the clock, as `EveryMinutes` does: no two runs take the same
    time. Subclasses are frozen dataclasses; their `repr` is the schedule in words.

    >>> from artkit.validation import AtEnd, AtStart, Every, Progress
    >>> schedule = AtStart() | Every(10) | AtEnd()
    >>> schedule
    AtStart() | Every(10) | AtEnd()
    >>> [schedule.due(Progress(step=step)) for step in (9, 10, 11)]
    [False, True, False]
    """

    __slots__ = ()

    @abstractmethod
    def due(self, progress: Progress) -> bool:
        """Return whether to validate at `progress`.

        Asked before the first training step, with `progress.is_start`, after each step, and at the end of a run, with
        `progress.is_last`; for the same step also more than once: after a batch that held nothing to train on, and
        when a run is resumed. What was validated at a step already is not validated there again.
        """

    def __or__(self, other: ValidationSchedule) -> ValidationSchedule:
        """Return the schedule that is due when either is; joined schedules are flat and hold nothing twice."""
        if not isinstance(other, ValidationSchedule):
            return NotImplemented
        schedules = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        return schedules[0] if len(schedules) == 1 else AnySchedule(schedules)


@dataclass(frozen=True, slots=True, repr=False)
class AnySchedule(ValidationSchedule):
    """Due when any of its schedules is; `|` makes it.

    Attributes:
        schedules: What was joined, in order.
    """

    schedules: tuple[ValidationSchedule, ...]

    def due(self, progress: Progress) -> bool:
        return any(schedule.due(progress) for schedule in self.schedules)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.schedules))


def _parts(schedule: ValidationSchedule) -> tuple[ValidationSchedule, ...]:
    return schedule.schedules if isinstance(schedule, AnySchedule) else (schedule,)
