"""When to validate."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
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

schedules = st.recursive(
    st.one_of(
        st.builds(Every, st.integers(1, 7)),
        st.builds(EveryMinutes, st.one_of(st.integers(1, 90), st.floats(0.01, 1e3))),
        st.lists(st.integers(1, 20), min_size=1, max_size=3).map(lambda steps: AtSteps(*steps)),
        st.sampled_from([EveryEpoch(), AtStart(), AtEnd(), Never()]),
    ),
    lambda inner: st.builds(lambda left, right: left | right, inner, inner),
    max_leaves=5,
)
progresses = st.builds(
    Progress,
    step=st.integers(0, 30),
    epoch=st.integers(0, 3),
    is_epoch_end=st.booleans(),
    is_last=st.booleans(),
    elapsed_s=st.floats(0, 1e6),
    is_start=st.booleans(),
    previous_elapsed_s=st.floats(0, 1e6),
)


def run(steps: int, per_epoch: int = 4) -> list[Progress]:
    """The states of a whole run, the start included."""
    trained = [
        Progress(step=step, epoch=(step - 1) // per_epoch, is_epoch_end=step % per_epoch == 0, is_last=step == steps)
        for step in range(1, steps + 1)
    ]
    return [Progress(step=0, is_start=True), *trained]


def due(schedule: ValidationSchedule, steps: int) -> list[int]:
    return [progress.step for progress in run(steps) if schedule.due(progress)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Every(3), [3, 6, 9]),
        (Every(1), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (EveryEpoch(), [4, 8]),
        (AtSteps(5, 2, 5, 99), [2, 5]),
        (AtStart(), [0]),
        (AtEnd(), [10]),
        (Never(), []),
        (Every(5) | AtEnd(), [5, 10]),
        (Every(4) | AtEnd() | AtStart(), [0, 4, 8, 10]),
    ],
)
def test_schedules_are_due_where_they_say(schedule: ValidationSchedule, expected: list[int]) -> None:
    """In a run of 10 steps, 4 to the epoch; each step is asked about once, so none is validated twice."""
    assert due(schedule, 10) == expected


@given(schedules, progresses)
def test_nothing_runs_at_the_start_unless_asked(schedule: ValidationSchedule, progress: Progress) -> None:
    """An untrained model is validated for those who want to see it."""
    if (progress.is_start or progress.step == 0) and "AtStart()" in repr(schedule):
        assert schedule.due(progress)
    elif progress.is_start:
        assert not schedule.due(progress)


@given(schedules, schedules, progresses)
def test_joined_schedules_are_due_when_either_is(
    left: ValidationSchedule, right: ValidationSchedule, progress: Progress
) -> None:
    """And asking twice gives the same answer."""
    joined = left | right

    assert joined.due(progress) == joined.due(progress) == (left.due(progress) or right.due(progress))


@given(schedules, schedules, schedules)
def test_joining_is_flat_and_holds_nothing_twice(
    one: ValidationSchedule, two: ValidationSchedule, three: ValidationSchedule
) -> None:
    """So that the policy in words stays short."""
    assert (one | two) | three == one | (two | three)
    assert one | one == one
    assert "(Every" not in repr(one | two)


@given(schedules)
def test_repr_is_the_schedule_in_words(schedule: ValidationSchedule) -> None:
    """The plan prints it, and it can be pasted into a script."""
    names = {kind.__name__: kind for kind in (AtEnd, AtStart, AtSteps, Every, EveryEpoch, EveryMinutes, Never)}

    assert eval(repr(schedule), names) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


def test_words() -> None:
    """As one would write it."""
    schedule = Every(10) | AtSteps(3, 1) | EveryMinutes(0.5) | EveryMinutes(30) | AtEnd()

    assert repr(schedule) == "Every(10) | AtSteps(1, 3) | EveryMinutes(0.5) | EveryMinutes(30) | AtEnd()"


@pytest.mark.parametrize(
    ("previous_s", "elapsed_s", "is_due"),
    [
        (0, 599, False),
        (0, 600, True),
        (599, 600, True),
        (600, 601, False),
        (601, 1199, False),
        (1199, 1201, True),
        (10, 6000, True),
        (600, 600, False),
    ],
)
def test_minutes_are_due_when_the_clock_crossed_a_multiple(previous_s: int, elapsed_s: int, is_due: bool) -> None:
    """Every 10 minutes of the run, however long its steps take."""
    progress = Progress(step=3, previous_elapsed_s=previous_s, elapsed_s=elapsed_s)

    assert EveryMinutes(10).due(progress) is is_due


def test_minutes_are_not_due_at_the_start() -> None:
    """Nothing was trained, however long it took to get there."""
    assert not EveryMinutes(1).due(Progress(step=0, is_start=True, elapsed_s=3600))


@pytest.mark.parametrize("value", [0, -1, 0.0, math.inf, math.nan, True, "3", None])
def test_what_is_no_interval_is_refused_when_made(value) -> None:
    """A NaN would never be due, and nobody would know."""
    with pytest.raises(ConfigurationError, match=r"is no positive finite number .*EveryMinutes"):
        EveryMinutes(value)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_what_is_no_step_is_refused_when_made(value) -> None:
    """Not after an hour of training."""
    with pytest.raises(ConfigurationError, match=r"Every\(steps=.* is no whole number of 1 or more"):
        Every(value)
    with pytest.raises(ConfigurationError, match=r"AtSteps\(steps=.* is no whole number of 1 or more .*AtStart\(\)"):
        AtSteps(4, value)


def test_no_step_at_all_is_refused() -> None:
    """It would be `Never()`, under a name that promises more."""
    with pytest.raises(ConfigurationError, match="names no step"):
        AtSteps()


def test_only_schedules_can_be_joined() -> None:
    """A number is an interval to some and a step to others."""
    with pytest.raises(TypeError, match="unsupported operand"):
        Every(10) | 5
