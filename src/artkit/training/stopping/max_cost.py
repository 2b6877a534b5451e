"""Stops when a run has cost its money."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checks import check_positive
from artkit.training.stopping.so_far import so_far
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["MaxCost"]

_COSTS = "costs/"
_RUNNING = "costs/cum/"
_ALL = "costs/all"


@dataclass(frozen=True, slots=True, repr=False)
class MaxCost(StopCondition):
    """Stops after the step in which the run has cost `usd`, earlier sessions of it included.

    Counts what ART logged under `costs/…`: what judges and models cost in training and in validation, what the backend
    reports, and ART's own estimate for the GPU where the backend has one. A cost that ART does not know is not in it:
    a judge or a model without a price counts as free. Nor is what was spent since the last row: batches that held
    nothing to train on are in the row of the next training step. What other runs of the same model cost does not count.

    ART logs a step's cost by name (`costs/train/judge/ruler`), the sum of each parent (`costs/train`) and of all
    (`costs/all`), and beside each the running sum over its whole log (`costs/cum/train`). Here the first level is
    summed, so that no parent is counted with its children. For each name of that level the cost is

        max(sum of the rows, highest running sum - running sum before the first row)

    since neither is ever too high. Of each name a step keeps only its last row, which leaves the one too low; the other
    is too low by what the rows before the last one of the first step cost, and by what a session that was killed before
    ART had saved its running sums had just added to them.

    Args:
        usd: The limit in US dollars, above 0.

    Raises:
        ConfigurationError: If `usd` is no positive number.
    """

    usd: float

    def __post_init__(self) -> None:
        check_positive("MaxCost", "usd", self.usd, "MaxCost(usd=0.01) is a cent, and any number above 0 works")

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return what the run has cost, or None."""
        first_level = {name for name in history.metrics() if name.startswith(_COSTS) and name.count("/") == 1}
        spent_usd = math.fsum(_spent_usd(history, name, progress) for name in first_level - {_ALL})
        if spent_usd < self.usd:
            return None
        return f"the run has cost {spent_usd:.2f} USD that ART knows of, and {self.usd:g} were allowed"

    def __repr__(self) -> str:
        return f"MaxCost({self.usd!r})"


def _spent_usd(history: MetricHistory, name: str, progress: Progress) -> float:
    """Return what this run has spent under one name of the first level."""
    rows = so_far(history, name, progress)
    running = so_far(history, _RUNNING + name.removeprefix(_COSTS), progress)
    summed = math.fsum(rows.values())
    first = min(rows, default=None)
    if first is None or first not in running:
        return summed
    return max(summed, max(running.values()) - (running[first] - rows[first]))
