"""Running a user's synchronous function off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from artkit.errors import ArtkitError

__all__ = ["note_threads", "noted_threads", "run_off_loop"]

ResultT = TypeVar("ResultT")


class _Noted(NamedTuple):
    loop: asyncio.AbstractEventLoop
    threads: dict[asyncio.Future[Any], str]


_noted: contextvars.ContextVar[_Noted | None] = contextvars.ContextVar("artkit_off_loop", default=None)


@contextlib.contextmanager
def note_threads() -> Iterator[Mapping[asyncio.Future[Any], str]]:
    """Yield the threads that `run_off_loop` starts inside, as long as they run: what ends with each, and what it is.

    For whoever must not touch what such a thread works on. Inside another one, threads are noted in the inner alone.
    """
    noted = _Noted(asyncio.get_running_loop(), {})
    token = _noted.set(noted)
    try:
        yield noted.threads
    finally:
        _noted.reset(token)


def noted_threads() -> frozenset[asyncio.Future[Any]]:
    """Return what ends with each thread that runs now, of those that the innermost `note_threads` notes."""
    return frozenset(_threads())


async def run_off_loop(function: Callable[[], ResultT], *, what: str, error: type[ArtkitError]) -> ResultT:
    """Run `function` in a thread of its own and return what it returns, or raise what it raises.

    Not `asyncio.to_thread`: its few threads are shared with name resolution and file access, so functions that hang
    would starve those, a function's deadline would run while it waits for a thread, and the interpreter would not exit
    before the last one ends. A thread of this kind that hangs costs nobody but itself; it cannot be ended, so what it
    still does after its deadline, it does unheard; `note_threads` tells how long. The context variables of the caller
    are there.

    Args:
        function: What is run.
        what: What it is, such as "a tool".
        error: Raised where it ends in something that is no `Exception`, such as the SystemExit of graded code.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Callable[[], ResultT]] = loop.create_future()
    threads = _threads()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = _outcome(context, function, what, error)
        try:
            loop.call_soon_threadsafe(ended.set_result, outcome)
        except RuntimeError:
            return  # The loop is closed: nobody waits for the result any more.

    threads[ended] = what
    ended.add_done_callback(threads.pop)
    try:
        threading.Thread(target=work, name="artkit-off-loop", daemon=True).start()
    except RuntimeError:  # the system has no thread left
        ended.cancel()
        raise
    # Shielded, for the thread goes on where the caller is cancelled or its deadline passes.
    return (await asyncio.shield(ended))()


def _threads() -> dict[asyncio.Future[Any], str]:
    noted = _noted.get()
    # What a thread starts on an event loop of its own ends with it.
    return noted.threads if noted is not None and noted.loop is asyncio.get_running_loop() else {}


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
