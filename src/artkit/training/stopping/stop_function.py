"""A plain function as a stop condition."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from artkit.errors import ConfigurationError
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["StopFunction", "as_condition"]


class StopFunction(Protocol):
    """The short form of a stop condition: a function that looks at the present step only."""

    def __call__(self, progress: Progress, metrics: Mapping[str, float], /) -> str | None:
        """Return the reason to stop, or None to go on.

        Called by the trainer when a `StopCondition` would be asked, never concurrently. `metrics` holds the finite
        numbers that were logged at `progress.step`, by ART's names, `val/reward` included where it was validated. What
        it raises ends the run.
        """


def as_condition(value: StopCondition | StopFunction) -> StopCondition:
    """Return `value` as a stop condition.

    >>> from artkit.checkpoints import MetricHistory
    >>> from artkit.validation import Progress
    >>> def good_enough(progress, metrics):
    ...     return "good enough" if metrics.get("val/reward", 0) > 0.9 else None
    >>> condition = as_condition(good_enough)
    >>> condition, condition.reason(Progress(step=7), MetricHistory.from_values({"val/reward": {7: 0.95}}))
    (as_condition(good_enough), 'good enough')

    Raises:
        ConfigurationError: It is neither a condition nor a plain function.
    """
    if isinstance(value, StopCondition):
        return value
    if isinstance(value, type):
        raise ConfigurationError(
            f"stop_when={value.__name__} is a class, not a stop condition", f"give {value.__name__}(…)"
        )
    if not callable(value):
        hint = "give one, such as NoImprovement(5), or a function of (progress, metrics) that returns a reason or None"
        raise ConfigurationError(f"stop_when={value!r} is no stop condition", hint)
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise ConfigurationError(
            f"the stop condition {_name(value)} must be awaited, and the trainer does not wait for it",
            "write it with `def`: what it needs is in its arguments",
        )
    return _AskedFunction(value)


@dataclass(frozen=True, slots=True, repr=False)
class _AskedFunction(StopCondition):
    """Asks a function about the present step."""

    function: StopFunction

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        answer: object = self.function(progress, history.row_at(progress.step))
        if not answer:
            return None
        return answer if isinstance(answer, str) else f"{_name(self.function)} answered {answer!r}"

    def __repr__(self) -> str:
        return f"as_condition({_name(self.function)})"


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
