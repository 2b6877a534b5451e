"""Doing once what several ask for at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["SharedCalls"]

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Call(Generic[ResultT]):
    task: asyncio.Task[ResultT]
    waiters: int = 0


class SharedCalls(Generic[ResultT]):
    """Calls that are in flight, by what they ask for; each event loop has its own.

    Who asks for what is in flight waits for it with the others. It belongs to all of them: cancelling one leaves it to
    the rest, and with the last it is cancelled. An exception is raised for each.
    """

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Call[ResultT]]] = WeakKeyDictionary()

    def __contains__(self, key: str) -> bool:
        """Whether `key` is in flight on the running event loop."""
        return key in self._calls()

    async def get(self, key: str, start: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Return what the call in flight for `key` comes to, or, without one, what `start()` does."""
        calls = self._calls()
        call = calls.get(key)
        if call is None:
            call = calls[key] = _Call(asyncio.create_task(start()))
        call.waiters += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiters -= 1
            if not call.waiters:
                if calls.get(key) is call:
                    del calls[key]
                await _end(call.task)

    def _calls(self) -> dict[str, _Call[ResultT]]:
        return self._loops.setdefault(asyncio.get_running_loop(), {})


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel `task`, unless it is done, and wait until it is."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # looked at: whoever had to be told of it was, or has been cancelled
