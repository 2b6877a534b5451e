"""A deadline that holds also against what ignores it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from artkit.transport.supervision import Grace, current_supervision

__all__ = ["Deadline", "pass_on_cancellation"]


class Deadline:
    """What runs inside `async with` is cancelled when its time is over, and `TimeoutError` is raised in its place.

    Unlike with `asyncio.timeout`, it is also raised where the cancellation was swallowed and a result came late: that
    is discarded. Where what runs inside goes on, whoever supervises it (`Supervision`) is told to give it up.

    Args:
        timeout_s: How long, in seconds; None is no limit.
        in_words: Says what took too long, for the error's text; asked when it did.
        is_result: Whether what comes late is a result of the work that is supervised, to be counted as such.
    """

    def __init__(self, timeout_s: float | None, in_words: Callable[[], str], *, is_result: bool = True) -> None:
        self._timeout_s = timeout_s
        self._in_words = in_words
        self._is_result = is_result
        self._timeout = asyncio.timeout(timeout_s)
        self._grace: Grace | None = None

    @property
    def expired(self) -> bool:
        """Whether the time is over."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        supervision = current_supervision()
        if self._timeout_s is not None and supervision is not None:

            def give_up() -> None:
                supervision.give_up(f"{self._in_words()}, and went on when it was cancelled")

            self._grace = Grace(supervision.grace_s, give_up)
            self._grace.begin(self._timeout_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._grace is not None:
            self._grace.end()
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise TimeoutError(self._in_words()) from error
        if self.expired and (error is None or isinstance(error, Exception)):
            if error is None and self._is_result and (supervision := current_supervision()) is not None:
                supervision.discard_late_result()
            raise TimeoutError(self._in_words()) from error


def pass_on_cancellation(before: int) -> None:
    """Raise the `CancelledError` that something awaited by the current task has swallowed.

    Args:
        before: `asyncio.Task.cancelling()` when it was awaited.

    Raises:
        asyncio.CancelledError: The task was cancelled since.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling() > before:
        if (supervision := current_supervision()) is not None:
            supervision.discard_late_result()
        raise asyncio.CancelledError
