"""A task group whose first failure is raised as it is."""

from __future__ import annotations

import asyncio

import pytest

from artkit.transport import first_failure_group


async def test_the_first_failure_is_raised_itself_and_the_other_tasks_are_cancelled() -> None:
    """Whoever catches a KeyError should not have to look into a group for it."""
    cancelled = asyncio.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fail() -> None:
        raise KeyError("door")

    async def both() -> None:
        async with first_failure_group() as tasks:
            tasks.create_task(wait_for_ever())
            tasks.create_task(fail())

    with pytest.raises(KeyError, match="door") as caught:
        await both()

    assert cancelled.is_set()
    assert caught.value.__context__ is None
