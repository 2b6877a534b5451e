"""Schedules over whole runs, asked as the trainer asks."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from artkit.scenarios import Cursor
from artkit.training.journal import Began, Emptied, Entry, Intended, Journal, Trained
from artkit.training.ledger import Ledger
from artkit.training.run_state import RunState
from artkit.validation import (
    AtEnd,
    AtStart,
    AtSteps,
    Every,
    EveryEpoch,
    EveryMinutes,
    Never,
    Progress,
    ValidationSchedule,
)

by_step = st.one_of(
    st.builds(Every, st.integers(1, 7)),
    st.lists(st.integers(1, 20), min_size=1, max_size=3).map(lambda steps: AtSteps(*steps)),
    st.sampled_from([EveryEpoch(), AtStart(), AtEnd(), Never()]),
)
by_clock = st.builds(EveryMinutes, st.integers(1, 60))


def joined(leaves: st.SearchStrategy[ValidationSchedule]) -> st.SearchStrategy[ValidationSchedule]:
    return st.recursive(leaves, lambda inner: st.builds(lambda left, right: left | right, inner, inner), max_leaves=5)


schedules = joined(by_step | by_clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of a run: how long it took, and whether it held something to train on."""

    seconds: int
    is_empty: bool
    is_epoch_end: bool


batches = st.builds(Batch, seconds=st.integers(1, 2000), is_empty=st.booleans(), is_epoch_end=st.booleans())
runs = st.lists(batches, max_size=25).map(lambda some: [Batch(seconds=1, is_empty=False, is_epoch_end=False), *some])


def entries(run: list[Batch]) -> list[Entry]:
    """The journal of a run, from its beginning on."""
    noted: list[Entry] = [Began(step=0, fingerprint={})]
    elapsed_s = step = 0
    for index, batch in enumerate(run):
        elapsed_s += batch.seconds
        kind = Emptied if batch.is_empty else Intended
        cursor = Cursor(position=index + 1)
        end = batch.is_epoch_end
        noted.append(kind(index=index, epoch=0, is_epoch_end=end, cursor=cursor, elapsed_s=elapsed_s))
        if not batch.is_empty:
            step += 1
            noted.append(Trained(index=index, step=step, elapsed_s=elapsed_s))
    return noted


def questions(noted: list[Entry], *, since: int = 0, ends: bool = True) -> list[Progress]:
    """What a session asks that begins after `since` entries: by the trainer's own ledger, where the trainer asks."""

    def progress(state: RunState, **where: bool) -> Progress:
        return Ledger(Journal(Path("unused")), state).progress(**where)

    state = RunState.replay(noted[:since])
    asked = [progress(state, is_start=True)] if state.batch is None else []
    if state.trained:
        asked.append(progress(state))
    for entry in noted[since:]:
        state = state.after(entry)
        if state.trained and isinstance(entry, Trained | Emptied):
            asked.append(progress(state))
    return [*asked, progress(state, is_last=True)] if ends and state.trained else asked


def validated(schedule: ValidationSchedule, asked: list[Progress]) -> list[int]:
    """The steps that are validated: what was validated at a step is not validated there again."""
    steps: list[int] = []
    for progress in asked:
        if schedule.due(progress) and progress.step not in steps:
            steps.append(progress.step)
    return steps


@given(schedules, runs)
def test_with_at_end_the_final_model_is_validated_once(schedule: ValidationSchedule, run: list[Batch]) -> None:
    """Whatever else is joined, and where the last batches held nothing to learn from too."""
    asked = questions(entries(run))

    assert validated(schedule | AtEnd(), asked).count(asked[-1].step) == 1


@given(schedules, runs, st.data())
def test_a_resumed_run_validates_at_the_same_steps(
    schedule: ValidationSchedule, run: list[Batch], data: st.DataObject
) -> None:
    """A death before the answer or after it; the next session asks what its journal says, the clock's time included."""
    noted = entries(run)
    died_after = data.draw(st.integers(1, len(noted)), label="entries")
    answered = questions(noted[:died_after], ends=False)
    if data.draw(st.booleans(), label="died before the last answer"):
        answered = answered[:-1]

    resumed = [*answered, *questions(noted, since=died_after)]
    assert validated(schedule, resumed) == validated(schedule, questions(noted))


@given(runs, st.integers(1, 60))
def test_minutes_are_validated_once_in_each_interval_that_a_step_ended_in(run: list[Batch], minutes: int) -> None:
    """However many steps an interval holds, and however many intervals a step takes."""
    trained = [batch for batch in run if not batch.is_empty]
    ended_s = list(itertools.accumulate(batch.seconds for batch in trained))
    intervals = {second // (60 * minutes) for second in ended_s} - {0}

    assert len(validated(EveryMinutes(minutes), questions(entries(trained)))) == len(intervals)


@given(schedules, schedules, schedules, runs)
def test_joining_is_a_union(
    one: ValidationSchedule, two: ValidationSchedule, three: ValidationSchedule, run: list[Batch]
) -> None:
    """Order, grouping and repetition change nothing, and Never() adds nothing."""
    asked = questions(entries(run))
    steps = validated(one | two, asked)

    assert validated(two | one, asked) == steps
    assert validated((one | two) | three, asked) == validated(one | (two | three), asked)
    assert validated(one | one, asked) == validated(one, asked)
    assert validated(one | Never(), asked) == validated(Never() | one, asked) == validated(one, asked)
    assert steps == sorted({*validated(one, asked), *validated(two, asked)})
