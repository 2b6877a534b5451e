"""A task group that fails with its first failure itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["first_failure_group"]


@asynccontextmanager
async def first_failure_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield an `asyncio.TaskGroup` whose first failure is raised as it is, once all other tasks are cancelled.

    For tasks of which one failure ends the rest: a group around it would say nothing more, and hide its type.
    """
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        failure = errors.exceptions[0]
    if failure is not None:  # raised here: inside `except` it would get the group for its context
        raise failure
