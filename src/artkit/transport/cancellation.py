"""Telling a cancellation from an error that looks like one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.errors import ArtkitError

__all__ = ["own_cancellation"]


@contextlib.contextmanager
def own_cancellation(who: str, error_type: type[ArtkitError]) -> Iterator[None]:
    """Let the cancellation of this task pass; any other `CancelledError` becomes an error like the rest.

    Whoever awaits something that was cancelled (a task of its own, a future of some library) gets a `CancelledError`
    though nobody cancelled the awaiting task. Passed on, it would look as if the caller had stopped everything.

    Args:
        who: Who runs inside, for the error's text.
        error_type: What is raised in place of a `CancelledError` that is not this task's.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise error_type(
            f"{who} raised a CancelledError, though nobody cancelled it",
            "something that it awaited was cancelled: catch that where it is awaited",
        ) from error
