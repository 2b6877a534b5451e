"""Running a user's synchronous function off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from artkit.errors import ArtkitError

__all__ = ["run_off_loop"]

ResultT = TypeVar("ResultT")


async def run_off_loop(function: Callable[[], ResultT], *, what: str, error: type[ArtkitError]) -> ResultT:
    """Run `function` in a thread of its own and return what it returns, or raise what it raises.

    Not `asyncio.to_thread`: its few threads are shared with name resolution and file access, so functions that hang
    would starve those, a function's deadline would run while it waits for a thread, and the interpreter would not exit
    before the last one ends. A thread of this kind that hangs costs nobody but itself; it cannot be ended, so what it
    still does after its deadline, it does unheard. The context variables of the caller are there.

    Args:
        function: What is run.
        what: What it is, such as "a tool".
        error: Raised where it ends in something that is no `Exception`, such as the SystemExit of graded code.
    """
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[Callable[[], ResultT]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = _outcome(context, function, what, error)
        try:
            loop.call_soon_threadsafe(_finish, finished, outcome)
        except RuntimeError:
            return  # The loop is closed: nobody waits for the result any more.

    threading.Thread(target=work, name="artkit-off-loop", daemon=True).start()
    return (await finished)()


def _outcome(
    context: contextvars.Context, function: Callable[[], ResultT], what: str, error: type[ArtkitError]
) -> Callable[[], ResultT]:
    """Run `function`, and return what gives its result or raises its exception."""
    try:
        result = context.run(function)
    except BaseException as raised:  # noqa: BLE001  # it is handed over, and nothing may end a thread in silence
        caught = raised

        def fail() -> ResultT:
            if isinstance(caught, Exception):
                raise caught
            problem = f"{what} ended in {type(caught).__name__}({caught})"
            raise error(problem, f"{what} returns or raises an Exception") from caught

        return fail
    return lambda: result


def _finish(finished: asyncio.Future[ResultT], outcome: ResultT) -> None:
    if not finished.done():  # It is when the caller was cancelled or its deadline passed.
        finished.set_result(outcome)
