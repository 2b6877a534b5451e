"""Keeps the checkpoints that a metric ranks best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from artkit.checkpoints.checks import check_positive
from artkit.checkpoints.decision import Verdict
from artkit.checkpoints.policy import CheckpointPolicy
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.checkpoints.metric_history import MetricHistory

__all__ = ["KeepBest"]


@dataclass(frozen=True, slots=True)
class KeepBest(CheckpointPolicy):
    """Keeps the `count` checkpoints with the best value of `metric`.

    No metric, nothing deleted: where no saved checkpoint has a value, all are kept. A checkpoint without a value is
    not kept where others have one. Among equals the earliest is the best: a later one has to be better to replace it.

    Args:
        metric: The metric as history.jsonl names it, split first: "val/reward".
        mode: Whether the largest value is the best, or the smallest.
        count: How many to keep, 1 or more.

    Raises:
        ConfigurationError: If `metric` is empty, `mode` is unknown or `count` is no positive integer.
    """

    metric: str = "val/reward"
    _: KW_ONLY
    mode: Literal["max", "min"] = "max"
    count: int = 1

    def __post_init__(self) -> None:
        if not self.metric:
            msg = f"KeepBest(metric={self.metric!r}) names no metric"
            raise ConfigurationError(msg, "the reward of the first validation is 'val/reward'")
        if self.mode not in ("max", "min"):
            msg = f"KeepBest(mode={self.mode!r}) is unknown"
            raise ConfigurationError(msg, "mode='max' where more is better, mode='min' where less is")
        check_positive("KeepBest", "count", self.count)

    @property
    def ranks_by(self) -> frozenset[str]:
        """The metric."""
        return frozenset({self.metric})

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return the verdicts by rank, or keep all where nothing can be ranked."""
        values = history.values(self.metric, at=saved)
        if not values:
            return dict.fromkeys(saved, Verdict(keep=True, why=self._no_metric(history)))
        sign = 1 if self.mode == "min" else -1
        ranked = sorted(values, key=lambda step: (sign * values[step], step))
        best = ranked[0]
        verdicts = {}
        for rank, step in enumerate(ranked, start=1):
            place = "the best" if step == best else f"the best is {values[best]:g} at step {best}"
            if step != best and rank <= self.count:
                place = f"among the best {self.count}"
            why = f"{self.metric} is {values[step]:g}, {place}"
            verdicts[step] = Verdict(keep=rank <= self.count, why=why)
        unranked = Verdict(keep=False, why=f"no {self.metric} to rank it by")
        return {step: verdicts.get(step, unranked) for step in saved}

    def _no_metric(self, history: MetricHistory) -> str:
        names = ", ".join(sorted(history.metrics())) or "nothing"
        return f"no {self.metric} for any checkpoint, so nothing is deleted; the history holds {names}"
