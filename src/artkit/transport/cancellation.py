"""Telling what is to end more than a rollout from an error that only looks like it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.errors import ArtkitError

__all__ = ["own_cancellation", "own_exits"]


@contextlib.contextmanager
def own_cancellation(who: str, error_type: type[ArtkitError]) -> Iterator[None]:
    """Let the cancellation of this task pass; any other `CancelledError` becomes an error like the rest.

    So does what `own_exits` makes one.

    Whoever awaits something that was cancelled (a task of its own, a future of some library) gets a `CancelledError`
    though nobody cancelled the awaiting task. Passed on, it would look as if the caller had stopped everything.

    Args:
        who: Who runs inside, for the error's text.
        error_type: What is raised in place of a `CancelledError` that is not this task's.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        with own_exits(who, error_type):
            yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise error_type(
            f"{who} raised a CancelledError, though nobody cancelled it",
            "something that it awaited was cancelled: catch that where it is awaited",
        ) from error


@contextlib.contextmanager
def own_exits(who: str, error_type: type[ArtkitError]) -> Iterator[None]:
    """Let exceptions, cancellations and Ctrl-C pass; whatever else is raised becomes an error like the rest.

    The `SystemExit` of code that a model wrote would end the event loop, and every rollout with it; some libraries stop
    their work with a `BaseException` of their own. It must be caught in the task that raised it: what awaits that comes
    too late.

    Args:
        who: Who runs inside, for the error's text.
        error_type: What is raised in its place.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise error_type(
            f"{who} raised {type(error).__name__}({error}), which is no Exception",
            "catch it where it is raised, and raise an Exception in its place",
        ) from error
