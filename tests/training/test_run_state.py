"""The state of a run: a fold over its journal, and what a death left to settle."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from artkit import ResumeError
from artkit.scenarios import Cursor
from artkit.training.journal import Began, Emptied, Ended, Intended, Logged, Trained, Validated
from artkit.training.run_state import RunState, settle

BEGAN = Began(step=3, fingerprint={"data": "abc"}, history_bytes=17)
EMPTIED = Emptied(index=0, epoch=0, is_epoch_end=False, cursor=Cursor(0, 2), metrics={"submitted": 2.0, "kept": 0.0})
INTENDED = Intended(index=1, epoch=0, is_epoch_end=True, cursor=Cursor(1), metrics={"submitted": 4.0}, elapsed_s=2.0)
TRAINED = Trained(index=1, step=4, elapsed_s=3.0)


def test_the_state_after_each_entry_is_what_the_entry_says() -> None:
    """Written out once, from the beginning of a run to its first logged step."""
    began = RunState(fingerprint={"data": "abc"}, initial_step=3, step=3, history_bytes=17)
    emptied = dataclasses.replace(
        began, batch=EMPTIED, cursor=Cursor(0, 2), empty_in_a_row=1, carried={"submitted": 2.0, "kept": 0.0}
    )
    intended = dataclasses.replace(emptied, pending=INTENDED, attempts=1, elapsed_s=2.0)
    trained = dataclasses.replace(
        began, step=4, trained=1, batch=INTENDED, cursor=Cursor(1), unlogged=TRAINED, elapsed_s=3.0, step_elapsed_s=3.0
    )

    entries = [BEGAN, EMPTIED, INTENDED, TRAINED, Logged(index=1, step=4)]
    states = [RunState.replay(entries[: length + 1]) for length in range(len(entries))]

    assert states == [began, emptied, intended, trained, dataclasses.replace(trained, unlogged=None)]


def test_counts_of_empty_batches_add_up() -> None:
    """They all go to the next row."""
    state = RunState.replay([BEGAN, EMPTIED, dataclasses.replace(EMPTIED, index=1)])

    assert (state.empty_in_a_row, state.carried) == (2, {"submitted": 4.0, "kept": 0.0})


def test_a_validation_counts_for_the_step_it_was_done_at() -> None:
    """The next weights are validated again; the state stays small however long the run."""
    entries: list[Any] = [BEGAN, Validated(name="val", step=3)]
    before = RunState.replay(entries)
    after = RunState.replay([*entries, INTENDED, TRAINED])
    same = RunState.replay([*entries, INTENDED, dataclasses.replace(TRAINED, step=3)])

    assert (before.validated, after.validated, same.validated) == ({"val"}, frozenset(), {"val"})


def test_a_session_that_ended_by_itself_starts_the_count_of_empty_batches_anew() -> None:
    """Whoever starts again has mended something."""
    assert RunState.replay([BEGAN, EMPTIED, Ended(reason="stopped")]).empty_in_a_row == 0


@pytest.mark.parametrize(
    ("entries", "backend_step", "missing"),
    [
        ([BEGAN], 3, None),
        ([BEGAN, INTENDED], 3, None),
        ([BEGAN, INTENDED], 4, Trained(index=1, step=4)),
        ([BEGAN, INTENDED, TRAINED], 4, None),
        ([BEGAN, INTENDED, INTENDED], 5, Trained(index=1, step=5)),
    ],
)
def test_the_backend_s_step_says_whether_the_pending_batch_was_trained_on(
    entries: list[Any], backend_step: int, missing: Trained | None
) -> None:
    """Nothing else knows: the death came between the two."""
    state = RunState.replay(entries)

    assert settle(state, backend_step=backend_step, fingerprint={"data": "abc"}) == missing


@pytest.mark.parametrize(
    ("entries", "backend_step", "message"),
    [
        ([BEGAN], 2, "journal says step 3, but the backend has only step 2"),
        ([BEGAN], 4, "at step 4, but this run left it at 3"),
        ([BEGAN, INTENDED], 2, "journal says step 3, but the backend has only step 2"),
        ([BEGAN, INTENDED], 5, "at step 5, but this run left it at 3"),
        ([BEGAN, INTENDED, INTENDED], 6, "at step 6, but this run left it at 3"),
        ([BEGAN, INTENDED, INTENDED, TRAINED, INTENDED], 6, "at step 6, but this run left it at 4"),
    ],
)
def test_a_backend_that_stands_where_this_run_cannot_have_brought_it_is_refused(
    entries: list[Any], backend_step: int, message: str
) -> None:
    """Going on would hide that weights are missing, or not this run's."""
    with pytest.raises(ResumeError, match=message):
        settle(RunState.replay(entries), backend_step=backend_step, fingerprint={"data": "abc"})
