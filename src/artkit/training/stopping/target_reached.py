"""Stops when a metric is good enough."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from artkit.checks import check_metric, check_mode, check_number
from artkit.training.stopping.so_far import so_far
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["TargetReached"]


@dataclass(frozen=True, slots=True)
class TargetReached(StopCondition):
    """Stops once `metric` has reached `value`, at the present step or at any before it.

    Args:
        value: The target, in the metric's own unit.
        metric: The metric as history.jsonl names it, split first.
        mode: "max" stops at the target or above, "min" at the target or below.

    Raises:
        ConfigurationError: If an argument cannot work.
    """

    value: float
    metric: str = "val/reward"
    _: KW_ONLY
    mode: Literal["max", "min"] = "max"

    def __post_init__(self) -> None:
        check_number("TargetReached", "value", self.value, "give the value to reach, such as TargetReached(0.9)")
        check_metric("TargetReached", self.metric)
        check_mode("TargetReached", self.mode)

    @property
    def reads(self) -> frozenset[str]:
        """The metric."""
        return frozenset({self.metric})

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return the first value that reached the target and its step, or None."""
        for step, value in so_far(history, self.metric, progress).items():
            if value >= self.value if self.mode == "max" else value <= self.value:
                return f"{self.metric} was {value:g} at step {step}, and {self.value:g} was the target"
        return None
