"""A deadline that holds also against what ignores it, and supervision of what runs under it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from artkit.transport import (
    AbandonedError,
    Deadline,
    Straggler,
    Supervision,
    pass_on_cancellation,
    stragglers_told_to,
    supervise,
)


async def for_ever() -> None:
    await asyncio.Event().wait()


def late() -> str:
    return "it took too long"


async def test_what_is_over_in_time_is_left_alone() -> None:
    """The usual case; the time that is left is nobody's any more."""
    async with Deadline(0.05, late) as deadline:
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)

    assert not deadline.expired


async def test_no_deadline_is_none() -> None:
    """None is no limit everywhere."""
    async with Deadline(None, late) as deadline:
        await asyncio.sleep(0)

    assert not deadline.expired


async def test_what_takes_too_long_is_told_in_the_words_of_its_owner() -> None:
    """Of several deadlines, people want to know which."""
    with pytest.raises(TimeoutError, match="it took too long"):
        async with Deadline(0.01, late):
            await for_ever()


async def test_an_exception_that_a_cancellation_was_made_into_is_a_time_out() -> None:
    """`except BaseException: raise AgentError` is common, and says nothing of the deadline."""

    async def work() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            raise KeyError("door") from None

    with pytest.raises(TimeoutError, match="it took too long") as raised:
        async with Deadline(0.01, late):
            await work()

    assert isinstance(raised.value.__cause__, KeyError)


async def test_an_exception_before_the_deadline_passes() -> None:
    """A `TimeoutError` of the user's own too: it says more than ours would."""
    with pytest.raises(TimeoutError, match="the socket"):
        async with Deadline(10, late):
            raise TimeoutError("the socket")


async def test_the_inner_of_two_deadlines_is_the_one_that_is_told() -> None:
    """A step inside a turn inside an episode."""
    with pytest.raises(TimeoutError, match="inner"):
        async with Deadline(10, lambda: "outer"), Deadline(0.01, lambda: "inner"):
            await for_ever()


async def test_a_cancellation_of_the_caller_is_no_time_out() -> None:
    """Also where the time is over by then."""

    async def work() -> None:
        async with Deadline(0.01, late):
            try:
                await for_ever()
            finally:
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()


async def test_a_swallowed_cancellation_is_raised_again() -> None:
    """It is asked for once; whoever swallows it would make the caller go on."""

    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await for_ever()
        pass_on_cancellation(0)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()


async def test_a_late_result_is_discarded_and_told() -> None:
    """Whether it counts would depend on the machine."""
    told: list[Straggler] = []

    async def work() -> str:
        async with Deadline(0.01, late):
            with contextlib.suppress(asyncio.CancelledError):
                await for_ever()
            return "late"

    with stragglers_told_to(told.append), pytest.raises(TimeoutError, match="it took too long"):
        await supervise(work, grace_s=10)

    assert told == [Straggler(has_result=True, is_running=False)]


async def test_what_goes_on_is_given_up_and_told_once() -> None:
    """Its late result is the same attempt's."""
    told: list[Straggler] = []
    go_on = asyncio.Event()

    async def work() -> str:
        async with Deadline(0.01, late):
            while not go_on.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await go_on.wait()
            return "late"

    words = "it took too long, and went on when it was cancelled"
    with stragglers_told_to(told.append), pytest.raises(AbandonedError, match=words):
        await supervise(work, grace_s=0.05)
    go_on.set()
    await asyncio.sleep(0.05)

    assert told == [Straggler(has_result=True, is_running=True)]


async def test_what_is_left_when_the_result_is_there_may_take_its_time() -> None:
    """An environment may take longer to close than to be cancelled."""
    supervision = Supervision(grace_s=0.02)
    closed = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            supervision.relax()
            await asyncio.sleep(0.2)
            closed.append(True)

    caller = asyncio.create_task(supervision.wait(work))
    await asyncio.sleep(0.01)
    caller.cancel()
    task = await caller

    assert (task.cancelled(), closed, supervision.is_cancelled, supervision.given_up) == (True, [True], True, None)
