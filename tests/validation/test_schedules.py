"""When to validate."""

from __future__ import annotations

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
    Never,
    Progress,
    ValidationSchedule,
)

schedules = st.recursive(
    st.one_of(
        st.builds(Every, st.integers(1, 7)),
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
    names = {kind.__name__: kind for kind in (AtEnd, AtStart, AtSteps, Every, EveryEpoch, Never)}

    assert eval(repr(schedule), names) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


def test_words() -> None:
    """As one would write it."""
    assert repr(Every(10) | AtSteps(3, 1) | AtEnd()) == "Every(10) | AtSteps(1, 3) | AtEnd()"


@given(schedules, st.integers(1, 40))
def test_the_final_model_is_always_validated_with_at_end(schedule: ValidationSchedule, steps: int) -> None:
    """Once, whatever the interval."""
    assert due(schedule | AtEnd(), steps).count(steps) == 1


@given(schedules, st.integers(1, 40), st.integers(0, 40))
def test_a_resumed_run_validates_at_the_same_steps(schedule: ValidationSchedule, steps: int, done: int) -> None:
    """The answer follows from the progress alone."""
    whole = due(schedule, steps)
    resumed = [progress.step for progress in run(steps) if progress.step > done and schedule.due(progress)]

    assert resumed == [step for step in whole if step > done]


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_what_is_no_step_is_refused_when_made(value) -> None:
    """Not after an hour of training."""
    with pytest.raises(ConfigurationError, match="is no positive whole number"):
        Every(value)
    with pytest.raises(ConfigurationError, match=r"is no positive whole number .*AtStart\(\)"):
        AtSteps(4, value)


def test_no_step_at_all_is_refused() -> None:
    """It would be `Never()`, under a name that promises more."""
    with pytest.raises(ConfigurationError, match="names no step"):
        AtSteps()


def test_only_schedules_can_be_joined() -> None:
    """A number is an interval to some and a step to others."""
    with pytest.raises(TypeError, match="unsupported operand"):
        Every(10) | 5
