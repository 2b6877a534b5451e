"""Telling what is to end more than a rollout from an error that only looks like it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from artkit.errors import RewardError
from artkit.transport import own_cancellation, own_exits


async def test_a_cancelled_error_that_nobody_asked_for_becomes_an_error_with_a_name() -> None:
    """Passed on, it would look as if the caller had stopped everything."""
    with (
        pytest.raises(RewardError, match="the judge raised a CancelledError, though nobody cancelled it"),
        own_cancellation("the judge", RewardError),
    ):
        raise asyncio.CancelledError


async def test_a_true_cancellation_passes() -> None:
    """Whoever asked for it waits for it."""
    started = asyncio.Event()

    async def wait() -> None:
        with own_cancellation("the judge", RewardError):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_outside_stays_a_deadline() -> None:
    """`asyncio.timeout` cancels the task and wants its cancellation back."""

    async def wait() -> None:
        async with asyncio.timeout(0):
            with own_cancellation("the judge", RewardError):
                await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await wait()


@pytest.mark.parametrize("own", [own_cancellation, own_exits])
async def test_what_is_no_exception_becomes_an_error_with_a_name(own: Any) -> None:
    """It would end the event loop, and every rollout with it."""
    with (
        pytest.raises(RewardError, match=r"the judge raised SystemExit\(3\), which is no Exception"),
        own("the judge", RewardError),
    ):
        raise SystemExit(3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, ValueError])
def test_ctrl_c_and_every_exception_pass(error: type[BaseException]) -> None:
    """They mean what they say; a coroutine that is closed must not answer with an error."""
    with pytest.raises(error), own_exits("the judge", RewardError):
        raise error
