"""Where a run stands when a schedule is asked."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands.

    Attributes:
        step: The backend's step, as `result.step` reported it.
        epoch: The epoch of the batch that was just trained, from 0.
        is_epoch_end: Whether that batch was the last of its epoch.
        is_last: Whether nothing more will be trained.
        elapsed_s: Seconds since the run began, earlier sessions of it included.
        is_start: Whether this is the state before the first training step of the run.
        previous_elapsed_s: `elapsed_s` as it was after the training step before this one; 0 at the first.
        empty_in_a_row: How many batches since the last training step held nothing to learn from.
    """

    step: int
    epoch: int = 0
    is_epoch_end: bool = False
    is_last: bool = False
    elapsed_s: float = 0.0
    is_start: bool = False
    previous_elapsed_s: float = 0.0
    empty_in_a_row: int = 0
