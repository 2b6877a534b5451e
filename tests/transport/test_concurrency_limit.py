"""The limit on how many things run at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from artkit.errors import ConfigurationError
from artkit.transport import ConcurrencyLimit


async def most_at_once(limit: ConcurrencyLimit, tasks: int) -> int:
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        async with limit:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(tasks)))
    return most


@pytest.mark.parametrize(("max_concurrent", "most"), [(1, 1), (3, 3), (None, 10)])
def test_the_limit_holds_on_every_event_loop(max_concurrent, most) -> None:
    """A semaphore made for one loop raises on the next: a second `asyncio.run`, the next cell of a notebook."""
    limit = ConcurrencyLimit(max_concurrent)

    assert [asyncio.run(most_at_once(limit, 10)) for _ in range(2)] == [most, most]


async def test_a_slot_is_given_back_by_whoever_fails_in_it() -> None:
    """Otherwise a few errors would stop everything."""
    limit = ConcurrencyLimit(1)
    for _ in range(2):
        with pytest.raises(KeyError):
            async with limit:
                raise KeyError("x")

    assert await most_at_once(limit, 2) == 1


@pytest.mark.parametrize("max_concurrent", [0, -1, 1.5, float("nan"), "4"])
def test_a_limit_that_lets_nobody_in_or_everybody_is_refused(max_concurrent: Any) -> None:
    """None at all would wait for ever; of one and a half no number of holders is ever too many."""
    with pytest.raises(ConfigurationError, match=f"max_concurrent={max_concurrent!r} is no whole number from 1"):
        ConcurrencyLimit(max_concurrent)
