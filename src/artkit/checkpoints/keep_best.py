"""Keeps the checkpoints that a metric ranks best."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from artkit.checkpoints.decision import Verdict
from artkit.checkpoints.known_names import known_names, nearest_name
from artkit.checkpoints.policy import CheckpointPolicy
from artkit.checks import check_count, check_metric, check_mode
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.checkpoints.metric_history import MetricHistory

__all__ = ["KeepBest"]


@dataclass(frozen=True, slots=True)
class KeepBest(CheckpointPolicy):
    """Keeps the `count` checkpoints with the best value of `metric`.

    No metric, nothing deleted: where no saved checkpoint has a value, all are kept. A checkpoint without a value is
    not kept where others have one. Among equals the earliest is the best: a later one has to be better to replace it.

    >>> KeepBest(bound="lower").ranks_by, KeepBest("val/cost", mode="min", bound="lower").ranks_by
    (frozenset({'val/reward_low'}), frozenset({'val/cost_high'}))

    Args:
        metric: The metric as history.jsonl names it, split first: "val/reward".
        mode: Whether the largest value is the best, or the smallest.
        count: How many to keep, 1 or more.
        bound: What is compared: the "mean" that validation logs as `metric`, or "lower", the end of its 95 % interval
            at which the checkpoint is at its worst, so that a lucky validation of few scenarios does not win:
            `<metric>_low` in mode "max", `<metric>_high` in mode "min".

    Raises:
        ConfigurationError: If `metric` is empty, `mode` or `bound` is unknown, or `count` is no positive integer.
    """

    metric: str = "val/reward"
    _: KW_ONLY
    mode: Literal["max", "min"] = "max"
    count: int = 1
    bound: Literal["mean", "lower"] = "mean"

    def __post_init__(self) -> None:
        check_metric("KeepBest", self.metric)
        check_mode("KeepBest", self.mode)
        if self.bound not in ("mean", "lower"):
            msg = f"KeepBest(bound={self.bound!r}) is unknown"
            raise ConfigurationError(msg, "bound='mean' compares means, bound='lower' the worse ends of intervals")
        check_count("KeepBest", "count", self.count)

    @property
    def column(self) -> str:
        """The metric that is compared: `metric`, or the end of its interval that `bound` asks for."""
        if self.bound == "mean":
            return self.metric
        return f"{self.metric}_low" if self.mode == "max" else f"{self.metric}_high"

    @property
    def ranks_by(self) -> frozenset[str]:
        """The column."""
        return frozenset({self.column})

    def rank(self, saved: Collection[int], history: MetricHistory) -> dict[int, float]:
        """Return the steps of `saved` that have a value of `column`, each with it, the best first."""
        values = history.values(self.column, at=saved)
        sign = 1 if self.mode == "min" else -1
        return {step: values[step] for step in sorted(values, key=lambda step: (sign * values[step], step))}

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return the verdicts by rank, or keep all where nothing can be ranked."""
        ranked = self.rank(saved, history)
        if not ranked:
            return dict.fromkeys(saved, Verdict(keep=True, why=self._no_value(history)))
        best = next(iter(ranked))
        verdicts = {}
        for rank, (step, value) in enumerate(ranked.items(), start=1):
            place = "the best" if step == best else f"the best is {ranked[best]:g} at step {best}"
            if step != best and rank <= self.count:
                place = f"among the best {self.count}"
            verdicts[step] = Verdict(keep=rank <= self.count, why=f"{self.column} is {value:g}, {place}")
        unranked = Verdict(keep=False, why=f"no {self.column} to rank it by")
        return {step: verdicts.get(step, unranked) for step in saved}

    def _no_value(self, history: MetricHistory) -> str:
        names = history.metrics()
        logged = "" if self.bound == "mean" else f" (validation logs it beside {self.metric})"
        near = nearest_name(self.metric, names)
        meant = "" if near is None else f"; did you mean {near!r}?"
        holds = f"the history holds {known_names(self.metric, names)}"
        return f"no {self.column} for any checkpoint, so nothing is deleted{logged}{meant or ';'} {holds}"
