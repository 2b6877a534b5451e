"""Running a user's synchronous tool off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from artkit.errors import EnvironmentContractError

__all__ = ["run_off_loop"]

ResultT = TypeVar("ResultT")


async def run_off_loop(function: Callable[[], ResultT]) -> ResultT:
    """Run `function` in a thread of its own and return what it returns, or raise what it raises.

    Not `asyncio.to_thread`: its few threads are shared with name resolution and file access, so tools that hang would
    starve those, and the interpreter would not exit before the last one ends. A thread of this kind that hangs costs
    nobody but itself; it cannot be ended, so what it still does after its deadline, it does unheard. The context
    variables of the caller are there.

    Raises:
        EnvironmentContractError: `function` ended in something that is no `Exception`, such as a SystemExit.
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

    threading.Thread(target=work, name="artkit-tool", daemon=True).start()
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
            raise EnvironmentContractError(
                f"a tool ended in {type(caught).__name__}({caught})", "a tool returns or raises an Exception"
            ) from caught

        return fail
    return lambda: result


def _finish(finished: asyncio.Future[Callable[[], ResultT]], outcome: Callable[[], ResultT]) -> None:
    if not finished.done():  # It is when the caller was cancelled or its deadline passed.
        finished.set_result(outcome)
