"""Closing a backend on every exit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["closing_backend"]


@asynccontextmanager
async def closing_backend(backend: Any, *, warn: Callable[[str], None]) -> AsyncIterator[None]:
    """Close `backend` at the end of the block, to the end: on success, error, cancellation and Ctrl-C.

    Whoever is cancelled while it closes gets the cancellation once it is closed, however often it is repeated: a
    backend that was left half-way may keep a GPU.

    Args:
        backend: What is closed.
        warn: Told of a failure to close after success, which must not cost the result. After an error it is that error
            which is raised, and the failure is added to it as a note.
    """
    try:
        yield
    except BaseException as error:
        if failure := await _close(backend):
            error.add_note(f"closing {type(backend).__name__} failed too: {failure!r}")
        raise
    if failure := await _close(backend):
        warn(f"closing {type(backend).__name__} failed: {failure!r}")


async def _close(backend: Any) -> BaseException | None:
    """Close `backend` in a task of its own and return what that raised."""

    async def close() -> None:
        await backend.close()

    is_cancelled = False
    failure: BaseException | None = None
    # Twice: a second Ctrl-C is raised in whatever runs, and then cancels every task: a closing that is under way too.
    for _ in range(2):
        task = asyncio.create_task(close())
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_cancelled = True
        failure = asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
        if not isinstance(failure, asyncio.CancelledError | KeyboardInterrupt):
            break
    if is_cancelled:
        raise asyncio.CancelledError
    return failure
