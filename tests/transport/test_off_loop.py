"""A user's synchronous function runs off the event loop, and whoever must know knows how long."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from artkit.errors import EnvironmentContractError
from artkit.transport.off_loop import note_threads, noted_threads, run_off_loop


def off_loop(function: Callable[[], Any], what: str = "a tool") -> Any:
    return run_off_loop(function, what=what, error=EnvironmentContractError)


async def test_what_it_returns_and_raises_is_handed_over() -> None:
    """As if it had been called."""
    assert await off_loop(lambda: 3) == 3
    with pytest.raises(KeyError, match="door"):
        await off_loop(functools.partial({}.__getitem__, "door"))


async def test_a_thread_is_noted_for_as_long_as_it_runs() -> None:
    """Its caller may have been cut short, and it still holds what it works on."""
    release = threading.Event()
    with note_threads() as threads:
        assert await off_loop(lambda: 3) == 3
        before = dict(threads)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await off_loop(release.wait, "the tool 'look'")
        names, same = list(threads.values()), noted_threads() == frozenset(threads)
        release.set()
        await asyncio.wait(threads)

    assert (before, names, same, dict(threads)) == ({}, ["the tool 'look'"], True, {})


async def test_threads_are_noted_by_the_innermost() -> None:
    """The world inside a world is closed by itself."""
    release = threading.Event()
    with note_threads() as outer, note_threads() as inner:
        task = asyncio.create_task(off_loop(release.wait))
        await asyncio.sleep(0)
        counts = len(outer), len(inner)
        release.set()
        await task

    assert counts == (0, 1)


async def test_what_a_thread_starts_on_a_loop_of_its_own_is_not_noted() -> None:
    """A future of another loop cannot be waited for, and it ends with the thread."""
    with note_threads() as threads:
        assert await off_loop(lambda: asyncio.run(off_loop(lambda: len(threads)))) == 1


async def test_outside_nothing_is_noted() -> None:
    """Rewards and judges run so too, and nobody closes what they work on."""
    assert await off_loop(lambda: 3) == 3
    assert noted_threads() == frozenset()
