"""A reward that a program works out."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Awaitable

import art
import pytest

from artkit.episodes import Episode
from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import EnvironmentReward, ProgrammaticReward, Score, choice_letter, number_match
from artkit.rewards.off_loop import off_loop_slots


def make_group(size: int) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([Episode(member=member) for member in range(size)], metadata={"scenario_id": "sum-3"})


def rewards(group: art.TrajectoryGroup) -> list[float]:
    return [episode.reward for episode in group.trajectories]


def grade(episode: Episode) -> float:
    return episode.member / 2


async def grade_async(episode: Episode) -> Score:
    await asyncio.sleep(0)
    return Score(episode.member / 2)


def later(episode: Episode) -> Awaitable[Score]:
    return grade_async(episode)


class Grader:
    """A callable object, as those with settings are."""

    async def __call__(self, episode: Episode) -> float:
        return episode.member / 2


@pytest.mark.parametrize(
    "fn",
    [grade, grade_async, Grader(), functools.partial(grade), later],
    ids=["sync", "async", "object", "partial", "returns an awaitable"],
)
async def test_each_episode_is_worth_what_the_function_returns(fn) -> None:
    """Sync or async, in the order of the group."""
    group = make_group(3)
    await ProgrammaticReward(fn)(group)

    assert rewards(group) == [0.0, 0.5, 1.0]


async def test_a_plain_trajectory_is_scored_too() -> None:
    """In anybody's ART script."""
    group = art.TrajectoryGroup([art.Trajectory(metrics={"turns": 3})])
    await ProgrammaticReward(lambda trajectory: trajectory.metrics["turns"])(group)

    assert rewards(group) == [3.0]


async def test_a_function_that_fails_on_one_member_costs_that_member() -> None:
    """Its siblings were paid for."""

    def fails(episode: Episode) -> float:
        return 1 / episode.member

    group = make_group(3)
    await ProgrammaticReward(fails)(group)

    assert rewards(group) == [1.0, 0.5]
    assert [(exception.type, exception.message) for exception in group.exceptions] == [
        ("ZeroDivisionError", "division by zero")
    ]
    assert "in fails" in group.exceptions[0].traceback


async def test_an_error_is_raised_when_asked() -> None:
    """As it is, not inside an ExceptionGroup."""
    with pytest.raises(ZeroDivisionError):
        await ProgrammaticReward(lambda episode: 1 / episode.member, on_error="raise")(make_group(3))


async def test_a_configuration_error_is_raised_in_any_case() -> None:
    """Every other episode would meet it too."""

    async def unset(episode: Episode) -> float:
        raise ConfigurationError("no answer key", "set it")

    with pytest.raises(ConfigurationError, match="no answer key"):
        await ProgrammaticReward(unset)(make_group(2))


async def test_members_are_scored_at_the_same_time_and_off_the_event_loop() -> None:
    """A barrier passes only when all three are inside."""
    barrier = threading.Barrier(3, timeout=30)
    threads = []

    def meet(episode: Episode) -> float:
        barrier.wait()
        threads.append(threading.get_ident())
        return 1.0

    group = make_group(3)
    await ProgrammaticReward(meet)(group)

    assert rewards(group) == [1.0] * 3
    assert threading.get_ident() not in threads


async def test_context_variables_reach_the_function() -> None:
    """Tracing hangs on them."""
    run_name: contextvars.ContextVar[float] = contextvars.ContextVar("run_name")
    run_name.set(0.25)
    group = make_group(1)
    await ProgrammaticReward(lambda episode: run_name.get())(group)

    assert rewards(group) == [0.25]


async def test_a_hanging_function_costs_its_member_at_the_deadline() -> None:
    """And not the run: a thread can't be stopped, but nobody waits for it."""
    release = threading.Event()

    def hang(episode: Episode) -> float:
        if episode.member == 1:
            release.wait(30)
        return 1.0

    group = make_group(2)
    try:
        await ProgrammaticReward(hang, timeout_s=0.05)(group)
    finally:
        release.set()

    assert rewards(group) == [1.0]
    assert "a call took longer than timeout_s=0.05" in group.exceptions[0].message


async def test_an_async_function_is_cancelled_at_the_deadline() -> None:
    """So that what it holds is released."""
    cancelled = []

    async def hang(episode: Episode) -> float:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(episode.member)
        return 1.0

    with pytest.raises(RewardError, match=r"hang, timeout_s=0.01.* took longer .*raise timeout_s"):
        await ProgrammaticReward(hang, timeout_s=0.01, on_error="raise")(make_group(1))
    assert cancelled == [0]


async def test_a_timeout_of_the_function_itself_keeps_its_words() -> None:
    """It is not our deadline that passed."""

    def asks(episode: Episode) -> float:
        raise TimeoutError("the compiler service did not answer")

    group = make_group(1)
    await ProgrammaticReward(asks)(group)

    assert group.exceptions[0].message == "the compiler service did not answer"


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError(), StopIteration(), GeneratorExit()], ids=repr)
async def test_graded_code_cannot_end_the_run(error: BaseException) -> None:
    """A grader that executes the model's code meets `exit()` sooner or later."""

    def executes(episode: Episode) -> float:
        if episode.member == 0:
            raise error
        return 1.0

    group = make_group(2)
    await ProgrammaticReward(executes)(group)

    assert rewards(group) == [1.0]
    assert len(group.exceptions) == 1
    assert type(error).__name__ in group.exceptions[0].message


@pytest.mark.parametrize("is_async", [True, False])
async def test_cancelling_cancels_at_once_with_nothing_changed(is_async: bool) -> None:
    """Ctrl-C does not wait for a grader."""
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def hang_async(episode: Episode) -> float:
        started.set()
        await asyncio.Event().wait()
        return 1.0

    def hang(episode: Episode) -> float:
        loop.call_soon_threadsafe(started.set)
        release.wait(30)
        return 1.0

    group = make_group(2)
    scoring = asyncio.create_task(ProgrammaticReward(hang_async if is_async else hang)(group))
    await started.wait()
    scoring.cancel()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await scoring
    release.set()
    assert (len(group.trajectories), group.exceptions) == (2, [])


def test_one_adapter_serves_several_event_loops() -> None:
    """A notebook runs one per cell."""
    reward = ProgrammaticReward(grade)

    assert [rewards(asyncio.run(reward(make_group(2)))) for _ in range(2)] == [[0.0, 0.5], [0.0, 0.5]]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ProgrammaticReward("grade"), "fn='grade' can't be called"),
        (lambda: ProgrammaticReward(number_match), r"number_match makes a grader .*give number_match\("),
        (lambda: ProgrammaticReward(choice_letter), r"give choice_letter\("),
        (lambda: ProgrammaticReward(EnvironmentReward()), "is a reward already .*give it itself"),
        (
            lambda: ProgrammaticReward(EnvironmentReward),
            r"EnvironmentReward is a class .*EnvironmentReward\(…\), without",
        ),
        (lambda: ProgrammaticReward(Grader), r"Grader is a class .*give Grader\(…\)"),
        (lambda: ProgrammaticReward(grade, timeout_s=0), "timeout_s=0 is no positive finite number"),
        (lambda: ProgrammaticReward(grade, timeout_s=float("nan")), "timeout_s=nan is no positive finite number"),
        (lambda: ProgrammaticReward(grade, timeout_s=float("inf")), "timeout_s=inf is no positive finite number"),
        (lambda: ProgrammaticReward(grade, timeout_s="5"), "timeout_s='5' is no positive finite number"),
        (lambda: ProgrammaticReward(grade, on_error="drop"), "on_error='drop' is unknown"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_made(make, problem: str) -> None:
    """Not after the first rollouts were paid for."""
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_no_timeout_is_no_limit() -> None:
    """For proofs and compilers."""
    group = asyncio.run(ProgrammaticReward(grade, timeout_s=None)(make_group(2)))

    assert rewards(group) == [0.0, 0.5]


async def test_no_more_functions_run_at_once_than_a_machine_bears() -> None:
    """A thousand threads that contend for the interpreter all pass their deadlines."""
    inside, most = 0, 0
    lock, gate, full = threading.Lock(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def count(episode: Episode) -> float:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if most >= 32:
            loop.call_soon_threadsafe(full.set)
        gate.wait(30)
        with lock:
            inside -= 1
        return 1.0

    group = make_group(40)
    scoring = asyncio.create_task(ProgrammaticReward(count)(group))
    await full.wait()
    gate.set()
    await scoring

    assert (most, len(group.trajectories)) == (32, 40)


async def test_the_deadline_does_not_run_while_a_function_waits_for_its_turn() -> None:
    """Who waits has not begun."""
    group = make_group(1)
    async with contextlib.AsyncExitStack() as busy:
        for _ in range(32):
            await busy.enter_async_context(off_loop_slots)
        scoring = asyncio.create_task(ProgrammaticReward(grade, timeout_s=0.5)(group))
        await asyncio.wait({scoring}, timeout=0.6)
    await scoring

    assert (rewards(group), group.exceptions) == ([0.0], [])
