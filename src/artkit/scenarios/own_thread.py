"""One thread that runs calls for the event loop, one after another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias

__all__ = ["OwnThread"]

_Outcome: TypeAlias = tuple[Any, BaseException | None]
_Call: TypeAlias = "tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[_Outcome]]"


class OwnThread:
    """Runs calls off the event loop, all in the same thread.

    Not a `ThreadPoolExecutor`: the interpreter waits for its threads, so a source that waits for a queue would keep a
    program from ending. Used by one task at a time.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_started = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """Return what `function` returns, or raise what it raises.

        Raises:
            RuntimeError: `function` raised `CancelledError`: nobody has cancelled the task that waits.
        """
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=_work, args=(self._calls,), name="artkit-scenarios", daemon=True).start()
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[_Outcome] = loop.create_future()
        self._calls.put((function, loop, finished))
        result, error = await finished
        if isinstance(error, asyncio.CancelledError):
            msg = "the source of scenarios raised CancelledError by itself"
            raise RuntimeError(msg) from error
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread as soon as the call that runs, if any, is over; waits for nothing."""
        self._calls.put(None)


def _work(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        function, loop, finished = call
        try:
            outcome: _Outcome = (function(), None)
        except BaseException as error:  # noqa: BLE001  # handed to the task that waits, or it would wait for ever
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(_finish, finished, outcome)
        except RuntimeError:
            return  # The loop is closed: nobody waits any more.


def _finish(finished: asyncio.Future[Any], outcome: Any) -> None:
    if not finished.done():  # It is when the task that waited was cancelled.
        finished.set_result(outcome)
