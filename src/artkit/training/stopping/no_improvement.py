"""Stops when a metric gets no better."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from artkit.checks import check_count, check_metric, check_mode, check_number
from artkit.errors import ConfigurationError
from artkit.training.stopping.so_far import so_far
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["NoImprovement"]


@dataclass(frozen=True, slots=True)
class NoImprovement(StopCondition):
    """Stops when the last `patience` values of `metric` were no better than the best before them.

    A value is better when it exceeds the best so far by more than `min_delta`; then it is the best that the next ones
    are held against. Steps without a value count for nothing, so with `val/reward` patience counts validations, not
    training steps, whatever the schedule.

    Args:
        patience: How many values without a better one, 1 or more.
        metric: The metric as history.jsonl names it, split first.
        mode: Whether more is better, or less.
        min_delta: By how much a value must be better to count, 0 or more, in the metric's own unit.

    Raises:
        ConfigurationError: If an argument cannot work.
    """

    patience: int
    metric: str = "val/reward"
    _: KW_ONLY
    mode: Literal["max", "min"] = "max"
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_count("NoImprovement", "patience", self.patience)
        check_metric("NoImprovement", self.metric)
        check_mode("NoImprovement", self.mode)
        hint = "NoImprovement(min_delta=0.0) is the least that works, and takes any better value"
        check_number("NoImprovement", "min_delta", self.min_delta, hint)
        if self.min_delta < 0:
            raise ConfigurationError(f"NoImprovement(min_delta={self.min_delta!r}) calls a worse value better", hint)

    @property
    def reads(self) -> frozenset[str]:
        """The metric."""
        return frozenset({self.metric})

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return the best value, its step and how many came since, or None."""
        sign = 1 if self.mode == "max" else -1
        best: tuple[int, float] | None = None
        since = 0
        for step, value in so_far(history, self.metric, progress).items():
            if best is None or sign * (value - best[1]) > self.min_delta:
                best, since = (step, value), 0
            else:
                since += 1
        if best is None or since < self.patience:
            return None
        values = "the value since was" if since == 1 else f"the {since} values since were"
        by = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"{self.metric} was best with {best[1]:g} at step {best[0]}, and {values} no better{by}"
