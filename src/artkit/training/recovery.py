"""The beginning of a session: the journal is read, and what a death left is settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.bridge import mend_state
from artkit.episodes import read_groups
from artkit.errors import ResumeError
from artkit.training.journal import Began, Logged, Trained, Validated, cut_torn_line
from artkit.training.run_state import RunState, settle

if TYPE_CHECKING:
    from artkit.training.journal import Entry, Journal
    from artkit.training.parts import Parts
    from artkit.training.rows import RowWriter

__all__ = ["Recovered", "recover"]


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """Where the session begins.

    Attributes:
        state: Where the run stands, all settled but validation and pruning.
        notes: What had to be mended, in words.
    """

    state: RunState
    notes: tuple[str, ...] = ()


async def recover(parts: Parts, journal: Journal, rows: RowWriter) -> Recovered:
    """Read the journal, settle what a death left, and return where the session begins.

    A training whose result was not written down is known from the backend's own step. Its row, if it is not in the
    history, is written now from the recording, and marked `recovered`.

    Raises:
        ResumeError: The run on disk is not the run that was asked for; says what changed and the choices.
    """
    if parts.resume == "never":
        journal.set_aside()
    entries = journal.read()
    backend_step = await parts.model.get_step()
    notes = [note for note in (mend_state(parts.model),) if note]
    if parts.history_path.exists():
        cut_torn_line(parts.history_path)
    if not entries:
        if parts.resume == "require":
            raise ResumeError(
                f'resume="require", but there is no run to resume at {journal.path}',
                'check the model\'s run_name, project and base_path, or use resume="auto"',
            )
        began = Began(
            step=backend_step,
            fingerprint=parts.fingerprint(),
            history_bytes=parts.history_path.stat().st_size if parts.history_path.exists() else 0,
        )
        journal.append(began)
        return Recovered(state=RunState.replay([began]), notes=tuple(notes))
    state = RunState.replay(entries)

    def note(entry: Entry) -> None:
        nonlocal state
        journal.append(entry)
        state = state.after(entry)

    if missing := settle(state, backend_step=backend_step, fingerprint=parts.fingerprint()):
        note(missing)
    if trained := state.unlogged:
        if not rows.has_train_row(state, trained):
            await _write_row(parts, rows, state, trained)
            notes.append(f"the row of step {trained.step} was missing from the history and was written")
        note(Logged(index=trained.index, step=trained.step, elapsed_s=state.elapsed_s))
    for number, validation in enumerate(parts.validations):
        is_done = (validation.name, state.step) in state.validated
        if not is_done and rows.has_validation_row(state, validation, is_first=number == 0):
            note(Validated(name=validation.name, step=state.step, elapsed_s=state.elapsed_s))
    return Recovered(state=state, notes=tuple(notes))


async def _write_row(parts: Parts, rows: RowWriter, state: RunState, trained: Trained) -> None:
    scenarios = {scenario.id: scenario for scenario in parts.feed.scenarios}
    groups, _ = read_groups(rows.recording(trained.index), scenarios.values())
    await rows.write_train(state, trained, groups, recovered=True)
