"""Running a user's synchronous function off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import TypeVar

from artkit.errors import RewardError
from artkit.transport import ConcurrencyLimit

__all__ = ["is_async", "off_loop_slots", "run_off_loop"]

ResultT = TypeVar("ResultT")

off_loop_slots = ConcurrencyLimit(32)
"""For functions that compute: held around `run_off_loop`, so that a thousand members do not contend for the interpreter
while their deadlines run. A function that is given up at its deadline frees its slot, or those that hang would starve
the rest."""


def is_async(function: object) -> bool:
    """Whether `function`, or the `__call__` of its class, is plainly async, and so needs no thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def run_off_loop(function: Callable[[], ResultT]) -> ResultT:
    """Run `function` in a thread of its own and return what it returns, or raise what it raises.

    Not `asyncio.to_thread`: its few threads are shared with name resolution and file access, so functions that hang
    would starve those, a function's deadline would run while it waits for a thread, and the interpreter would not exit
    before the last one ends. A thread of this kind that hangs costs nobody but itself. The context variables of the
    caller are there.

    Raises:
        RewardError: If `function` ends in something that is no `Exception`, such as the SystemExit of graded code.
    """
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[Callable[[], ResultT]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = _outcome(context, function)
        try:
            loop.call_soon_threadsafe(_finish, finished, outcome)
        except RuntimeError:
            return  # The loop is closed: nobody waits for the result any more.

    threading.Thread(target=work, name="artkit-reward", daemon=True).start()
    return (await finished)()


def _outcome(context: contextvars.Context, function: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Run `function`, and return what gives its result or raises its exception."""
    try:
        result = context.run(function)
    except BaseException as error:  # noqa: BLE001  # it is handed over, and nothing may end a thread in silence
        caught = error

        def fail() -> ResultT:
            if isinstance(caught, Exception):
                raise caught
            msg = f"the function ended in {type(caught).__name__}({caught})"
            raise RewardError(msg, "a function that scores returns or raises an Exception") from caught

        return fail
    return lambda: result


def _finish(finished: asyncio.Future[ResultT], outcome: ResultT) -> None:
    if not finished.done():  # It is when the caller was cancelled or its deadline passed.
        finished.set_result(outcome)
