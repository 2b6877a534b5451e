"""The stop condition: one pure question, and `|`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["AnyCondition", "StopCondition"]


class StopCondition(ABC):
    """Says why a run stops before its data ends.

    Pure: the answer follows from where the run stands and from what it had logged by then, and asking again changes
    nothing. So a resumed run stops where an uninterrupted one does, unless the condition goes by the clock, as
    `MaxMinutes` does: no two runs take the same time. Subclasses are frozen dataclasses; their `repr` is the condition
    in words.

    >>> from artkit.checkpoints import MetricHistory
    >>> from artkit.training.stopping import MaxMinutes, NoImprovement
    >>> from artkit.validation import Progress
    >>> stop_when = NoImprovement(2) | MaxMinutes(90)
    >>> stop_when
    NoImprovement(patience=2, metric='val/reward', mode='max', min_delta=0.0) | MaxMinutes(90)
    >>> history = MetricHistory.from_values({"val/reward": {10: 0.5, 20: 0.75, 30: 0.7, 40: 0.75}})
    >>> stop_when.reason(Progress(step=30), history)
    >>> stop_when.reason(Progress(step=40), history)
    'val/reward was best with 0.75 at step 20, and the 2 values since were no better'
    """

    __slots__ = ()

    @property
    def reads(self) -> frozenset[str]:
        """The metrics without which the condition never stops anything."""
        return frozenset()

    @abstractmethod
    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return why to stop, or None to go on.

        Asked by the trainer after every trained and validated step and after a batch that held nothing to train on,
        never concurrently, and once more for the last step when a run is resumed: the answer may have died with the
        session. What it raises ends the run.

        Args:
            progress: Where the run stands.
            history: What this run has logged, finite values only. Values of steps after `progress.step` change nothing.
        """

    def __or__(self, other: StopCondition) -> StopCondition:
        """Return the condition that stops when either does; joined conditions are flat and hold nothing twice."""
        if not isinstance(other, StopCondition):
            return NotImplemented
        conditions = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        return conditions[0] if len(conditions) == 1 else AnyCondition(conditions)


@dataclass(frozen=True, slots=True, repr=False)
class AnyCondition(StopCondition):
    """Stops when any of its conditions does; `|` makes it.

    Attributes:
        conditions: What was joined, in order; the first that stops gives the reason.
    """

    conditions: tuple[StopCondition, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The metrics of all the conditions."""
        return frozenset().union(*(condition.reads for condition in self.conditions))

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return the first reason that a condition gives, or None."""
        reasons = (condition.reason(progress, history) for condition in self.conditions)
        return next(filter(None, reasons), None)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.conditions))


def _parts(condition: StopCondition) -> tuple[StopCondition, ...]:
    return condition.conditions if isinstance(condition, AnyCondition) else (condition,)
