"""Telling a cancellation from an error that looks like one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from artkit.errors import EnvironmentContractError

__all__ = ["own_cancellation"]


@contextlib.contextmanager
def own_cancellation() -> Iterator[None]:
    """Let the cancellation of this task pass; any other `CancelledError` becomes an error like the rest.

    Whoever awaits something that was cancelled (a task of its own, a future of some library) gets a `CancelledError`
    though nobody cancelled the rollout. Passed on, it would look as if the caller had stopped the whole gather.

    Raises:
        EnvironmentContractError: In place of a `CancelledError` that is not this task's.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise EnvironmentContractError(
            "a CancelledError was raised, though nobody cancelled the rollout",
            "something that it awaited was cancelled: catch that where it is awaited",
        ) from error
