"""Telling a cancellation from an error that looks like one."""

from __future__ import annotations

import asyncio

import pytest

from artkit.errors import RewardError
from artkit.transport import own_cancellation


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
