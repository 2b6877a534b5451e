"""What had been logged when a condition is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["so_far"]


def so_far(history: MetricHistory, metric: str, progress: Progress) -> dict[int, float]:
    """Return the value of `metric` at each step up to the present one that has one, steps ascending."""
    return {step: value for step, value in history.values(metric).items() if step <= progress.step}
