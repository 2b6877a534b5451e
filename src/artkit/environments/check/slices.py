"""A coroutine that is awaited slice by slice: each piece between two awaits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

__all__ = ["GivenUpError", "Sliced"]

ResultT = TypeVar("ResultT")

# What is cancelled may have to tidy up, and is given so long for it.
_UNTIL_GIVEN_UP_S = 5.0


class GivenUpError(Exception):
    """What was awaited went on for long after it had been cancelled."""


class Sliced(Awaitable[ResultT]):
    """Awaits `awaitable` with a context around each of its slices.

    What goes on though it was cancelled is given up after a while, for nobody else could end it.

    Args:
        awaitable: What is awaited, once.
        around: Makes the context of a slice.
    """

    def __init__(self, awaitable: Awaitable[ResultT], around: Callable[[], Any]) -> None:
        self._awaitable = awaitable
        self._around = around
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled_before = 0
        self._is_given_up = False

    def __await__(self) -> Generator[Any, Any, ResultT]:
        self._task = asyncio.current_task()
        self._cancelled_before = self._task.cancelling() if self._task else 0
        steps = self._awaitable.__await__()
        error: BaseException | None = None
        try:
            while True:
                is_over, value = self._advance(steps, error)
                if is_over:
                    return value  # type: ignore[no-any-return]  # what the awaitable returned
                error = None
                try:
                    yield value
                except BaseException as thrown:  # cancellation too goes to the environment
                    if self._is_given_up:
                        self._end(steps)
                        raise GivenUpError from thrown
                    if isinstance(thrown, asyncio.CancelledError) and self._timer is None:
                        self._timer = asyncio.get_running_loop().call_later(_UNTIL_GIVEN_UP_S, self._give_up)
                    error = thrown
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _advance(self, steps: Any, error: BaseException | None) -> tuple[bool, Any]:
        with self._around():
            try:
                if error is None:
                    return False, steps.send(None) if hasattr(steps, "send") else next(steps)
                if hasattr(steps, "throw"):
                    return False, steps.throw(error)
                raise error
            except StopIteration as stop:
                return True, stop.value

    def _give_up(self) -> None:
        self._timer = None
        # A deadline of the environment's own that cancelled it has taken that back by now.
        if self._task is not None and self._task.cancelling() > self._cancelled_before:
            self._is_given_up = True
            self._task.cancel()

    def _end(self, steps: Any) -> None:
        if self._task is not None:
            self._task.uncancel()  # our own, which nobody else knows of
        with contextlib.suppress(RuntimeError):  # it goes on even then
            if hasattr(steps, "close"):
                steps.close()
