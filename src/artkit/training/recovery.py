"""The beginning of a session: the journal is read, and what a death left is settled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.bridge import mend_state
from artkit.bridge.safe_values import safe_number
from artkit.episodes import read_groups
from artkit.errors import ResumeError
from artkit.tracking import StepFinished, ValidationFinished
from artkit.training.history_rows import size_of
from artkit.training.journal import Began, Ended, Journal, Logged, Validated
from artkit.training.ledger import Ledger
from artkit.training.run_state import RunState, settle
from artkit.training.torn_line import mend_last_line
from artkit.training.validation_result import scores_of

if TYPE_CHECKING:
    from artkit.tracking import TrackingEvent
    from artkit.training.journal import Trained
    from artkit.training.parts import Parts
    from artkit.training.rows import RowWriter
    from artkit.training.validation import Validation

__all__ = ["Recovered", "recover"]


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """Where the session begins.

    Attributes:
        ledger: The run's journal, all settled but validation and pruning.
        has_died: Whether the last session did not end by itself.
        notes: What had to be mended, in words.
        untold: What the last session did and could tell nobody of.
    """

    ledger: Ledger
    has_died: bool
    notes: tuple[str, ...] = ()
    untold: tuple[TrackingEvent, ...] = ()


async def recover(parts: Parts, rows: RowWriter) -> Recovered:
    """Read the journal, settle what a death left, and return where the session begins.

    A training whose result was not written down is known from the backend's own step. Its row, if it is not in the
    history, is written now from the recording, and marked `recovered`.

    Raises:
        ResumeError: The run on disk is not the run that was asked for; says what changed and the choices.
    """
    journal = Journal(parts.own_dir / "journal.jsonl")
    if parts.resume == "never":
        journal.set_aside(rows.recordings)
    entries = journal.read()
    backend_step = await parts.model.get_step()
    notes = [note for note in (mend_state(parts.model),) if note]
    if parts.history_path.exists():
        mend_last_line(parts.history_path)
    if parts.resume == "auto" and _can_begin_anew(RunState.replay(entries), parts, backend_step):
        journal.set_aside(rows.recordings)
        entries = []
        notes.append("data or settings changed, and nothing was trained yet: the run begins anew")
    ledger = Ledger(journal, RunState.replay(entries))
    if not entries:
        if any(rows.recordings.glob("batch-*.jsonl")):
            raise ResumeError(
                f"{rows.recordings} holds batches of a run, but its journal {journal.path} is missing or empty: what "
                "was trained on is not known",
                'restore the journal, or begin a new run on these weights with resume="never" (the recordings are set '
                "aside)",
            )
        if parts.resume == "require":
            raise ResumeError(
                f'resume="require", but there is no run to resume at {journal.path}',
                'check the model\'s run_name, project and base_path, or use resume="auto"',
            )
        ledger.note(
            Began(step=backend_step, fingerprint=parts.fingerprint(), history_bytes=size_of(parts.history_path))
        )
        return Recovered(ledger=ledger, has_died=False, notes=tuple(notes))
    settled, untold = await _settle(parts, rows, ledger, backend_step)
    has_died = not isinstance(entries[-1], Ended)
    return Recovered(ledger=ledger, has_died=has_died, notes=(*notes, *settled), untold=tuple(untold))


async def _settle(
    parts: Parts, rows: RowWriter, ledger: Ledger, backend_step: int
) -> tuple[list[str], list[TrackingEvent]]:
    """Do what the last session left undone of the log; return what was mended, in words, and what is to be told."""
    notes: list[str] = []
    untold: list[TrackingEvent] = []
    if missing := settle(ledger.state, backend_step=backend_step, fingerprint=parts.fingerprint()):
        notes += _late_trainings(ledger.state, missing)
        ledger.note(missing)
    if trained := ledger.state.unlogged:
        if not rows.has_train_row(ledger.state, trained):
            await _write_row(parts, rows, ledger.state, trained)
            notes.append(f"the row of step {trained.step} was missing from the history and was written")
        ledger.note(Logged(index=trained.index, step=trained.step))
        untold.append(_step_finished(rows, ledger.state, trained))
    for number, validation in enumerate(parts.validations):
        is_noted = validation.name in ledger.state.validated
        if not is_noted and rows.has_validation_row(ledger.state, validation, is_first=number == 0):
            ledger.note(_validated(rows, ledger.state, validation, is_first=number == 0))
            metrics = rows.logged_of(ledger.state, validation, is_first=number == 0)
            untold.append(ValidationFinished(name=validation.name, step=ledger.state.step, metrics=metrics))
    return notes, untold


def _step_finished(rows: RowWriter, state: RunState, trained: Trained) -> StepFinished:
    epoch = state.batch.epoch if state.batch else 0
    return StepFinished(step=trained.step, epoch=epoch, index=trained.index, metrics=rows.logged_in_training(state))


def _can_begin_anew(state: RunState, parts: Parts, backend_step: int) -> bool:
    """Whether settings changed of a run that has trained nothing yet, so that nothing is lost by beginning again."""
    untouched = not state.trained and backend_step == state.step
    return untouched and bool(state.fingerprint) and state.fingerprint != parts.fingerprint()


def _late_trainings(state: RunState, missing: Trained) -> Iterator[str]:
    if missing.step > state.step + 1:
        yield (
            f"batch {missing.index} was begun {state.attempts} times, and the backend went from step {state.step} to "
            f"{missing.step}: more than one of these trainings has finished"
        )


async def _write_row(parts: Parts, rows: RowWriter, state: RunState, trained: Trained) -> None:
    scenarios = {scenario.id: scenario for scenario in parts.feed.scenarios}
    recording = rows.recording(trained.index)
    groups, _ = read_groups(recording, scenarios.values()) if recording.exists() else ([], [])
    await rows.write_train(state, trained, groups, recovered=True)


def _validated(rows: RowWriter, state: RunState, validation: Validation, *, is_first: bool) -> Validated:
    """Return the entry of a validation whose row is in the history; what it scored is in its recording."""
    key = "val/reward" if is_first else f"val/{validation.name}/reward"
    mean = safe_number(rows.logged(state).get(key))
    recording = rows.validation_recording(validation, state.step)
    groups, _ = read_groups(recording) if recording.exists() else ([], [])
    scores = scores_of(groups)
    return Validated(
        name=validation.name, step=state.step, is_first=is_first, mean=mean if scores else None, scores=scores
    )
