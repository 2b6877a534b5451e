"""Stops when a run has lost what it had learned."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from statistics import median, variance
from typing import TYPE_CHECKING

from artkit.checks import check_count, check_metric
from artkit.training.stopping.so_far import so_far
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["RewardCollapse"]

_RISE = 4.0  # in standard errors: how far it must have risen to have learned
_FALL = 2.0  # in standard errors: how far below the beginning it must lie
_SUDDEN_WINDOWS = 4  # how far back the good times may lie
_MAD_OF_NORMAL = 0.6745  # the median of |x| for a standard normal x


@dataclass(frozen=True, slots=True)
class RewardCollapse(StopCondition):
    """Stops when the reward had risen well above where it began, then fell below it suddenly and stayed there.

    With w = `window_steps`, let m(t) be the mean reward over the w trained steps that end at the t-th, `first` = m(w)
    the beginning, and `best` the highest m. `noise` is the standard error of the difference of two such means, the
    larger of two estimates of it:

        sqrt(2 s² / w), where s² is the variance inside the first, the best and the last window, pooled
        median |m(t-2w) - 2 m(t-w) + m(t)| / (0.6745 sqrt(3)) over the t before the fall

    The second sees also how the means wander where steps depend on each other, and is 0 for a steady trend. The run
    stops when all of these hold:

        best > first + 4 noise                                       it had learned
        each of the last `patience` m < first - 2 noise              it is worse than untrained, and stays so
        one of the 4w m before those > (first + best) / 2            it fell suddenly

    It is meant to be silent when in doubt. A reward that began at its floor cannot fall below it; when all groups are
    as bad, that is a case for `NothingToLearn`. A slow decline is one for `NoImprovement`. Data in an order of
    difficulty, the hard part after the easy one, looks like a collapse: shuffle it, or do without this condition.

    Args:
        metric: The metric as history.jsonl names it; more is better.
        window_steps: How many trained steps a mean is taken over, 2 or more.
        patience: How many means in a row must lie below the beginning, 1 or more. Nothing is said before step
            4 `window_steps` + `patience` of the run.

    Raises:
        ConfigurationError: If an argument cannot work.
    """

    metric: str = "train/reward"
    _: KW_ONLY
    window_steps: int = 5
    patience: int = 5

    def __post_init__(self) -> None:
        check_metric("RewardCollapse", self.metric)
        check_count("RewardCollapse", "window_steps", self.window_steps, least=2)
        check_count("RewardCollapse", "patience", self.patience)

    @property
    def reads(self) -> frozenset[str]:
        """The metric."""
        return frozenset({self.metric})

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return from where to where the reward rose and fell, or None."""
        width = self.window_steps
        rewards = so_far(history, self.metric, progress)
        steps, values = list(rewards), list(rewards.values())
        if len(values) < 4 * width + self.patience:
            return None
        first = _mean(values[:width])
        highest_low = max(map(_mean, _windows(values[1 - width - self.patience :], width)))
        if highest_low >= first:  # nearly always, and the rest takes longer
            return None
        windows = _windows(values, width)
        means = [_mean(window) for window in windows]
        best_at = max(range(len(means)), key=means.__getitem__)
        best = means[best_at]
        before = means[-(self.patience + _SUDDEN_WINDOWS * width) : -self.patience]
        if max(before) <= (first + best) / 2:
            return None
        noise = max(
            math.sqrt(2 * _mean([variance(windows[at]) for at in (0, best_at, -1)]) / width),
            _wandering(means[: -(self.patience + width)], width),
        )
        if best <= first + _RISE * noise or highest_low >= first - _FALL * noise:
            return None
        return (
            f"{self.metric} collapsed: it began with {first:.3g}, was {best:.3g} by step {steps[best_at + width - 1]} "
            f"and is {means[-1]:.3g} now (means of {width} steps; a chance difference is about {noise:.2g})"
        )


def _mean(window: list[float]) -> float:
    """Return the mean: the same for the same rewards in any order, so that equal rewards have equal means."""
    return math.fsum(window) / len(window)


def _windows(values: list[float], width: int) -> list[list[float]]:
    """Return all stretches of `width` values, the earliest first."""
    return [values[end - width : end] for end in range(width, len(values) + 1)]


def _wandering(means: list[float], width: int) -> float:
    """Return how far two means that follow each other differ by chance, from how three in a row bend."""
    bends = (
        abs(left - 2 * middle + right)
        for left, middle, right in zip(means, means[width:], means[2 * width :], strict=False)
    )
    # The bend of three independent means has three times the variance of a difference of two.
    return median(bends) / (_MAD_OF_NORMAL * math.sqrt(3))
