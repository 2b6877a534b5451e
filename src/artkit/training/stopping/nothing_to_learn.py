"""Stops when the groups have nothing left to teach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checks import check_count
from artkit.training.stopping.so_far import so_far
from artkit.training.stopping.stop_condition import StopCondition

if TYPE_CHECKING:
    from artkit.checkpoints import MetricHistory
    from artkit.validation import Progress

__all__ = ["NothingToLearn"]

# ART logs the mean over the step's groups of the standard deviation inside each; groups of one are left out.
_SPREAD = "train/reward_std_dev"
# Rewards this close are equal, as `DropZeroVariance` has it.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class NothingToLearn(StopCondition):
    """Stops when `steps` batches in a row taught nothing, because the rewards inside each group were equal.

    Such a batch is one that held nothing to train on, or a trained step whose `train/reward_std_dev` is 0; the latter
    comes up where no filter drops equal groups. Empty batches that a training step followed are not counted.

    Args:
        steps: How many batches in a row, 1 or more. `max_empty_steps` of the settings stops a run too: set it higher
            than this for batches that held nothing to train on.

    Raises:
        ConfigurationError: If `steps` is no positive integer.
    """

    steps: int

    def __post_init__(self) -> None:
        check_count("NothingToLearn", "steps", self.steps)

    def reason(self, progress: Progress, history: MetricHistory) -> str | None:
        """Return how many batches in a row taught nothing, or None."""
        empty, equal = progress.empty_in_a_row, 0
        for spread in reversed(so_far(history, _SPREAD, progress).values()):
            if spread > _ROUNDING:
                break
            equal += 1
        if empty + equal < self.steps:
            return None
        return (
            f"the last {empty + equal} batches taught nothing: {equal} were trained on although the rewards in each "
            f"group were equal, and {empty} held nothing to train on"
        )

    def __repr__(self) -> str:
        return f"NothingToLearn({self.steps})"
