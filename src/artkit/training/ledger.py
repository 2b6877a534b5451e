"""The ledger: the journal, and where the run stands after it."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from artkit.validation import Progress

if TYPE_CHECKING:
    from artkit.training.journal import Entry, Journal
    from artkit.training.run_state import RunState

__all__ = ["Ledger"]


class Ledger:
    """Keeps the journal on the disk and the state in memory in step: nothing moves the one without the other.

    Args:
        journal: Where entries go.
        state: Where the run stands after the entries that are in it.

    Attributes:
        state: Where the run stands.
    """

    def __init__(self, journal: Journal, state: RunState) -> None:
        self.state = state
        self._journal = journal
        self._started_s = time.monotonic()
        self._elapsed_before_s = state.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds the run has taken, earlier sessions included."""
        return self._elapsed_before_s + time.monotonic() - self._started_s

    def note(self, entry: Entry) -> None:
        """Put an entry into the journal, with the time, and the state after it."""
        entry = dataclasses.replace(entry, elapsed_s=self.elapsed_s)
        self._journal.append(entry)
        self.state = self.state.after(entry)

    def progress(self, *, is_start: bool = False, is_last: bool = False) -> Progress:
        """Return where the run stands, as schedules ask for it: after the last training, at the time it was done."""
        state, batch = self.state, self.state.batch
        return Progress(
            step=state.step,
            epoch=batch.epoch if batch else 0,
            is_epoch_end=bool(batch and batch.is_epoch_end),
            is_last=is_last,
            elapsed_s=state.step_elapsed_s,
            is_start=is_start,
            previous_elapsed_s=state.previous_elapsed_s,
            empty_in_a_row=state.empty_in_a_row,
        )
