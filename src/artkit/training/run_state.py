"""Where a run stands, read from its journal, and what a death left to settle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from artkit.errors import ResumeError
from artkit.scenarios import Cursor
from artkit.training.journal import Batch, Began, Emptied, Ended, Entry, Intended, Logged, Trained, Validated
from artkit.training.row import add_counts
from artkit.training.standing import Mark, Standing

__all__ = ["RunState", "settle"]

_CHOICES = (
    'put it back as it was, begin anew on these weights with resume="never" '
    "(the old journal is set aside), or give the model another run_name"
)


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run stands; made by folding its journal, entry by entry.

    Attributes:
        fingerprint: What the run was begun with.
        initial_step: The backend's step when the run began.
        step: The backend's step after the last training that is known of.
        trained: Training steps of this run so far.
        batch: The last batch that was finished: trained on, or found empty.
        cursor: Where the next batch starts.
        pending: A batch that was about to be trained on when the journal ends.
        attempts: How often it was: a service may finish a training after the session that began it was killed.
        unlogged: A training whose row may be missing from the history.
        empty_in_a_row: How many of the last batches of this session held nothing to train on.
        carried: Counts of those batches, for the next row.
        not_finite: Which losses of the last training were NaN or infinite, in words.
        validated: Which validations were done at `step`.
        unranked: Steps whose first validation could score too little to rank them: how good they are is not known.
        standings: The first and the best validation of each set, by its name.
        elapsed_s: Seconds the run has taken.
        step_elapsed_s: Seconds it had taken after the last training.
        previous_elapsed_s: Seconds it had taken after the training before that.
        history_bytes: How long the history was when the run began; what stands before belongs to earlier runs.
    """

    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    initial_step: int = 0
    step: int = 0
    trained: int = 0
    batch: Batch | None = None
    cursor: Cursor = field(default_factory=Cursor)
    pending: Intended | None = None
    attempts: int = 0
    unlogged: Trained | None = None
    empty_in_a_row: int = 0
    carried: Mapping[str, float] = field(default_factory=dict)
    not_finite: str | None = None
    validated: frozenset[str] = frozenset()
    unranked: frozenset[int] = frozenset()
    standings: Mapping[str, Standing] = field(default_factory=dict)
    elapsed_s: float = 0.0
    step_elapsed_s: float = 0.0
    previous_elapsed_s: float = 0.0
    history_bytes: int = 0

    @property
    def next_index(self) -> int:
        """The number of the next batch."""
        return 0 if self.batch is None else self.batch.index + 1

    @classmethod
    def replay(cls, entries: Iterable[Entry]) -> Self:
        """Return the state after all `entries`."""
        state = cls()
        for entry in entries:
            state = state.after(entry)
        return state

    def after(self, entry: Entry) -> Self:
        """Return the state after one more entry."""
        changed: dict[str, Any] = {"elapsed_s": max(self.elapsed_s, entry.elapsed_s)}
        match entry:
            case Began():
                changed |= {
                    "fingerprint": entry.fingerprint,
                    "initial_step": entry.step,
                    "step": entry.step,
                    "history_bytes": entry.history_bytes,
                }
            case Intended():
                changed |= {"pending": entry, "attempts": self.attempts + 1}
            case Trained():
                changed |= {
                    "step": entry.step,
                    "trained": self.trained + 1,
                    "batch": self.pending,
                    "cursor": self.pending.cursor if self.pending else self.cursor,
                    "pending": None,
                    "attempts": 0,
                    "unlogged": entry,
                    "not_finite": entry.not_finite,
                    "empty_in_a_row": 0,
                    "carried": {},
                    "validated": self.validated if entry.step == self.step else frozenset(),
                    "step_elapsed_s": entry.elapsed_s,
                    "previous_elapsed_s": self.step_elapsed_s,
                }
            case Logged():
                changed |= {"unlogged": None}
            case Emptied():
                changed |= {
                    "batch": entry,
                    "cursor": entry.cursor,
                    "pending": None,
                    "attempts": 0,
                    "empty_in_a_row": self.empty_in_a_row + 1,
                    "carried": add_counts(self.carried, entry.metrics),
                }
            case Validated():
                changed |= self._validated(entry)
            case Ended():
                # Whoever starts again after a stop has mended something, or wants to see.
                changed |= {"empty_in_a_row": 0}
        return dataclasses.replace(self, **changed)

    def _validated(self, entry: Validated) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        if entry.step == self.step:
            changed["validated"] = self.validated | {entry.name}
        if entry.mean is not None:
            mark = Mark(step=entry.step, mean=entry.mean, scores=entry.scores)
            known = self.standings.get(entry.name)
            standing = Standing.begun(mark) if known is None else known.after(mark)
            changed["standings"] = {**self.standings, entry.name: standing}
        elif entry.is_first:
            changed["unranked"] = self.unranked | {entry.step}
        return changed


def settle(state: RunState, *, backend_step: int, fingerprint: Mapping[str, Any]) -> Trained | None:
    """Hold the journal against the backend and the settings of today.

    Args:
        state: What the journal says.
        backend_step: What the backend says.
        fingerprint: What today's run would begin with.

    Returns:
        The entry that a death kept from being written: the pending batch was trained on, for the backend has moved, at
        most once for each time that it was begun.
        None where there is nothing to write; a batch still pending then is done again.

    Raises:
        ResumeError: Data or settings changed, or the backend stands where this run cannot have brought it.
    """
    names = sorted({*state.fingerprint, *fingerprint})
    changes = [_change(name, state.fingerprint.get(name), fingerprint.get(name)) for name in names]
    if any(changes):
        raise ResumeError(
            f"this run was begun with other data or settings: {'; '.join(filter(None, changes))}", _CHOICES
        )
    if state.pending is not None and 1 <= backend_step - state.step <= state.attempts:
        return Trained(index=state.pending.index, step=backend_step)
    if backend_step < state.step:
        raise ResumeError(
            f"the journal says step {state.step}, but the backend has only step {backend_step}: weights are missing",
            'restore the checkpoints, or begin anew on what is there with resume="never"',
        )
    if backend_step > state.step:
        raise ResumeError(
            f"the backend is at step {backend_step}, but this run left it at {state.step}: something else trained it",
            'begin anew on these weights with resume="never", or give the model another run_name',
        )
    return None


def _change(name: str, before: object, now: object) -> str:
    if before == now:
        return ""
    if name == "data":
        return "the training data changed"
    return f"{name} was {before!r} and is {now!r}"
