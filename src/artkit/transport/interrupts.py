"""Signals while something runs on the event loop: handled there, for its time only, and where nobody else does."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

__all__ = [
    "end_soon_if_interrupted",
    "handled_signal",
    "is_first_interrupt",
    "one_cleanup",
    "say_cleanup_runs",
]

_LOG = logging.getLogger("artkit")
_HELD_UP_S = 1.0

ResultT = TypeVar("ResultT")


@dataclass(eq=False)
class _Listener:
    """Who is told of a signal, on the event loop that it runs on."""

    act: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    came_s: float | None = None

    def tell(self) -> None:
        now_s = time.monotonic()
        if self.came_s is not None and now_s - self.came_s > _HELD_UP_S:
            # The loop does not turn. Whoever holds it up is all that can be ended.
            raise KeyboardInterrupt
        self.came_s = self.came_s or now_s
        self.loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        self.came_s = None
        self.act()


@dataclass(eq=False)
class _Handled:
    """One signal: what there was before, and who wants to be told. The first is; when it leaves, the next one is."""

    number: signal.Signals
    before: Any
    listeners: list[_Listener] = field(default_factory=list)

    def __call__(self, _: int, frame: FrameType | None) -> None:
        first = self.listeners[0]
        if first.loop.is_running():
            first.tell()
        elif callable(self.before):
            self.before(self.number, frame)
        else:
            self.put_back()
            signal.raise_signal(self.number)

    def put_back(self) -> None:
        now: object = signal.getsignal(self.number)
        if now is self:
            signal.signal(self.number, self.before)


@contextlib.contextmanager
def handled_signal(number: signal.Signals, act: Callable[[], None]) -> Iterator[Any]:
    """Call `act` on the running event loop at each signal inside, and put back at the end what was there before.

    Nothing is done where a signal cannot be handled, which is outside the main thread, nor where the program has a
    handler of its own. `signal.signal` does it rather than the event loop, of which some kinds cannot. Of several that
    are inside at a time, the first alone acts, and the next one once that has left.

    Yields:
        The handler that was there before; None where nothing was done.
    """
    now = signal.getsignal(number)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not (isinstance(now, _Handled) or _is_pythons_own(number, now)):
        yield None
        return
    listener = _Listener(act, asyncio.get_running_loop())
    handled = now if isinstance(now, _Handled) else _Handled(number, now)
    handled.listeners.append(listener)
    if handled is not now:
        _put_back_in_children()
        signal.signal(number, handled)
    try:
        yield handled.before
    finally:
        handled.listeners.remove(listener)
        if not handled.listeners:
            handled.put_back()


@functools.cache
def _put_back_in_children() -> None:
    """See to it that a process that is forked off, as `multiprocessing` does, has the handlers of before.

    Here they end what the parent runs. A child would take no notice: `Process.terminate()` would not end it.
    """

    def put_back() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            if isinstance(handled := signal.getsignal(number), _Handled):
                handled.put_back()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=put_back)


def say_cleanup_runs() -> None:
    """Tell whoever presses Ctrl-C again that the first time was heard."""
    _LOG.warning("clean-up is running: what is open is being closed, and then this ends")


def is_first_interrupt(pythons: Callable[[int, None], object]) -> bool:
    """Do what Python's own handler does about a Ctrl-C that can be followed by clean-up; whether that was to be done.

    That of `asyncio.run` cancels the main task at the first one. All else raises KeyboardInterrupt wherever it is.
    """
    try:
        pythons(signal.SIGINT, None)
    except KeyboardInterrupt:
        return False
    return True


async def one_cleanup(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """Await `work()` in a task of its own; it is cancelled once, however often the caller is, and ends as it likes.

    A second Ctrl-C does not cut short what is done about the first, as it would be by a KeyboardInterrupt wherever the
    program is.
    """
    task = asyncio.create_task(work())
    is_cancelled = has_said = False
    pythons: Any = None

    def interrupt() -> None:
        nonlocal has_said
        # Who was cancelled in another way, such as by a deadline, has not heard of Ctrl-C yet.
        if not is_first_interrupt(pythons) and not has_said:
            has_said = True
            say_cleanup_runs()

    with contextlib.ExitStack() as cleanup:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                if not is_cancelled:
                    is_cancelled = True
                    task.cancel()
                    end_soon_if_interrupted()
                    pythons = cleanup.enter_context(handled_signal(signal.SIGINT, interrupt))
        if is_cancelled:
            if not task.cancelled():
                task.exception()  # looked at, so that nobody reports it as forgotten
            # In an event loop that the program runs by itself, nobody else makes this of a Ctrl-C.
            raise KeyboardInterrupt if has_said and pythons is signal.default_int_handler else asyncio.CancelledError
        return task.result()


@functools.cache
def end_soon_if_interrupted() -> None:
    """See to it that a process which Ctrl-C ends is gone soon after what it runs has ended, with the status 130.

    Python searches all that was imported for garbage, several times, before it ends. With openpipe-art that is half a
    million objects and takes seconds, in which people press Ctrl-C again. And where torch is loaded, what its compiler
    does at exit makes Python forget that it was interrupted: the status would be 1.
    """
    atexit.register(_spare_the_search)
    if callable(at_exit := getattr(sys.modules.get("torch._dynamo.utils"), "dump_compile_times", None)):
        atexit.unregister(at_exit)


def _spare_the_search() -> None:
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        gc.collect()  # once, for what has something left to do, such as a file that was not closed
        gc.freeze()


def _is_pythons_own(number: signal.Signals, handler: object) -> bool:
    """Whether `handler` is what Python itself has set: the program wants nothing special."""
    if number is not signal.SIGINT:
        return handler is signal.SIG_DFL
    of_runner = isinstance(handler, functools.partial) and isinstance(
        getattr(handler.func, "__self__", None), asyncio.Runner
    )
    return of_runner or handler is signal.default_int_handler
