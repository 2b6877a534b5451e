"""Schedules over whole runs, asked as the trainer asks."""

from __future__ import annotations

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st

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
step_schedules = joined(by_step)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of a run: how long it took, and whether it held something to train on."""

    seconds: int
    is_empty: bool
    is_epoch_end: bool


batches = st.builds(Batch, seconds=st.integers(1, 2000), is_empty=st.booleans(), is_epoch_end=st.booleans())
runs = st.lists(batches, max_size=25).map(lambda some: [Batch(seconds=1, is_empty=False, is_epoch_end=False), *some])


def questions(run: list[Batch]) -> list[Progress]:
    """What a schedule is asked in a run that goes through: the start, after each batch, and the end."""
    asked = [Progress(step=0, is_start=True)]
    trained_at_s = [0, 0]
    for batch in run:
        last = asked[-1]
        elapsed_s = last.elapsed_s + batch.seconds
        if not batch.is_empty:
            trained_at_s.append(elapsed_s)
        asked.append(
            Progress(
                step=last.step + (not batch.is_empty),
                is_epoch_end=batch.is_epoch_end,
                elapsed_s=elapsed_s,
                previous_elapsed_s=trained_at_s[-2],
            )
        )
    return [*asked, dataclasses.replace(asked[-1], is_last=True)]


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
    asked = questions(run)

    assert validated(schedule | AtEnd(), asked).count(asked[-1].step) == 1


@given(step_schedules, runs, st.data())
def test_a_resumed_run_validates_at_the_same_steps(
    schedule: ValidationSchedule, run: list[Batch], data: st.DataObject
) -> None:
    """A death before the answer or after it; the next session is asked again where the last one stood."""
    asked = questions(run)
    cut = data.draw(st.integers(1, len(asked) - 1), label="died after this many questions")
    stood = asked[data.draw(st.sampled_from([cut - 1, cut]), label="stood")]
    resumed = [*asked[:cut], dataclasses.replace(stood, is_last=False), *asked[cut:]]

    assert validated(schedule, resumed) == validated(schedule, asked)


@given(runs, st.integers(1, 60))
def test_minutes_are_validated_once_in_each_interval_that_a_step_ended_in(run: list[Batch], minutes: int) -> None:
    """However many steps an interval holds, and however many intervals a step takes."""
    trained = [batch for batch in run if not batch.is_empty]
    ended_s = list(itertools.accumulate(batch.seconds for batch in trained))
    intervals = {second // (60 * minutes) for second in ended_s} - {0}

    assert len(validated(EveryMinutes(minutes), questions(trained))) == len(intervals)


@given(schedules, schedules, schedules, runs)
def test_joining_is_a_union(
    one: ValidationSchedule, two: ValidationSchedule, three: ValidationSchedule, run: list[Batch]
) -> None:
    """Order, grouping and repetition change nothing, and Never() adds nothing."""
    asked = questions(run)
    steps = validated(one | two, asked)

    assert validated(two | one, asked) == steps
    assert validated((one | two) | three, asked) == validated(one | (two | three), asked)
    assert validated(one | one, asked) == validated(one, asked)
    assert validated(one | Never(), asked) == validated(Never() | one, asked) == validated(one, asked)
    assert steps == sorted({*validated(one, asked), *validated(two, asked)})
