"""Awaiting a coroutine slice by slice."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from artkit.environments.check import slices
from artkit.environments.check.slices import GivenUpError, Sliced


async def sliced(coroutine: object) -> object:
    return await Sliced(coroutine, contextlib.nullcontext)  # type: ignore[arg-type, var-annotated]  # a coroutine


async def test_the_answer_comes_through() -> None:
    """The slices are nobody else's business."""

    async def answer() -> int:
        await asyncio.sleep(0)
        return 3

    assert await sliced(answer()) == 3


async def test_a_cancelled_coroutine_may_tidy_up() -> None:
    """It waits while it does, and that is right."""
    tidied: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append(True)

    task = asyncio.create_task(sliced(waits()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert tidied == [True]


async def test_a_coroutine_that_goes_on_when_cancelled_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else could end it, and the check would wait for ever."""
    monkeypatch.setattr(slices, "_UNTIL_GIVEN_UP_S", 0.01)

    async def goes_on() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    task = asyncio.create_task(sliced(goes_on()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(GivenUpError):
        await task


async def test_a_deadline_inside_gives_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cancels the task too, and takes that back."""
    monkeypatch.setattr(slices, "_UNTIL_GIVEN_UP_S", 0.0)

    async def goes_on() -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        for _ in range(10):
            await asyncio.sleep(0)
        return "late"

    assert await sliced(goes_on()) == "late"
