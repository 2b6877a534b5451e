"""A limit on how many things run at once, on any event loop."""

from __future__ import annotations

import asyncio
from numbers import Integral
from types import TracebackType
from weakref import WeakKeyDictionary

from artkit.errors import ConfigurationError

__all__ = ["ConcurrencyLimit"]


class ConcurrencyLimit:
    """Lets at most `max_concurrent` holders in at once: `async with limit: ...`.

    An `asyncio.Semaphore` belongs to the first event loop that waits for it, so an object that outlives a loop (a
    second `asyncio.run`, the next cell of a notebook) needs one for each.

    Args:
        max_concurrent: How many on one event loop; None is no limit.

    Raises:
        ConfigurationError: `max_concurrent` is no whole number from 1.
    """

    def __init__(self, max_concurrent: int | None) -> None:
        # A semaphore that begins at 1.5 is never at 0, and so never full.
        if max_concurrent is not None and not (isinstance(max_concurrent, Integral) and max_concurrent >= 1):
            raise ConfigurationError(
                f"max_concurrent={max_concurrent!r} is no whole number from 1", "give at least 1, or None for no limit"
            )
        self._max_concurrent = max_concurrent
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def __aenter__(self) -> None:
        if self._max_concurrent is not None:
            loop = asyncio.get_running_loop()
            await self._slots.setdefault(loop, asyncio.Semaphore(self._max_concurrent)).acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._max_concurrent is not None:
            self._slots[asyncio.get_running_loop()].release()
