"""Work that may go on after it was cancelled: noticed, given up, and told of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["GRACE_S", "AbandonedError", "Grace", "Straggler", "Supervision", "stragglers_told_to", "supervise"]

_LOG = logging.getLogger(__name__)

GRACE_S = 0.5
"""How long work of artkit's own making may go on after it was cancelled."""

# A grace passes in short waits: a loop that is held up, or has a thousand tasks to cancel, uses up one, and not all.
_WAITS = 5

ResultT = TypeVar("ResultT")


class AbandonedError(TimeoutError):
    """In place of the result of work that went on after its deadline and was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """Work that ignored that it was cancelled.

    Attributes:
        has_result: Whether something would have come of it; whatever comes, and whenever, is discarded.
        is_running: Whether it still runs: it was given up.
    """

    has_result: bool
    is_running: bool


_tell: ContextVar[Callable[[Straggler], None] | None] = ContextVar("artkit_stragglers", default=None)
_supervision: ContextVar[Supervision | None] = ContextVar("artkit_supervision", default=None)

_abandoned: set[asyncio.Task[Any]] = set()
"""Tasks that nobody waits for: an event loop holds its tasks weakly."""


@contextlib.contextmanager
def stragglers_told_to(tell: Callable[[Straggler], None]) -> Iterator[None]:
    """Have `tell` called for each piece of work that is started inside and goes on after it was cancelled."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


class Grace:
    """Calls back when something has not ended some time after it should have.

    Args:
        seconds: How long it has, at least.
        call_back: Called unless `end` was.
    """

    def __init__(self, seconds: float, call_back: Callable[[], None]) -> None:
        self._wait_s = seconds / _WAITS
        self._call_back = call_back
        self._waits = _WAITS
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, after_s: float = 0.0) -> None:
        """Let the time run, from `after_s` seconds from now on; it does not run twice."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(after_s + self._wait_s, self._pass)

    def end(self) -> None:
        """What was waited for has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pass(self) -> None:
        self._waits -= 1
        if self._waits:
            self._timer = asyncio.get_running_loop().call_later(self._wait_s, self._pass)
        else:
            self._call_back()


class Supervision:
    """Awaits one piece of work that may ignore its cancellation, or one of its deadlines (`Deadline`).

    Args:
        grace_s: How long it may go on after that before it is given up.

    Attributes:
        is_cancelled: Whether the caller was cancelled while it waited.
        given_up: Why the work was given up; None where it was not.
    """

    def __init__(self, *, grace_s: float = GRACE_S) -> None:
        self.grace_s = grace_s
        self.is_cancelled = False
        self._is_resulting = True
        self._given_up: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._grace = Grace(grace_s, lambda: self.give_up("it went on after it was cancelled"))

    @property
    def given_up(self) -> str | None:
        return self._given_up.result() if self._given_up.done() else None

    async def wait(
        self, work: Callable[[], Awaitable[ResultT]], *, on_cancel: Callable[[asyncio.Task[Any]], None] | None = None
    ) -> asyncio.Task[ResultT]:
        """Await `work()` in a task of its own until that is over or given up, and return the task; raises nothing.

        Args:
            work: What is done. Called once.
            on_cancel: Called each time the caller is cancelled; None cancels the work at the first time.
        """
        task = asyncio.create_task(self._watched(work))
        ends: set[asyncio.Future[Any]] = {task, self._given_up}
        while not task.done() and not self._given_up.done():
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                is_first, self.is_cancelled = not self.is_cancelled, True
                if on_cancel is not None:
                    on_cancel(task)
                elif is_first:
                    self.cancel(task)
        self._grace.end()
        if not task.done():
            _abandon(task)
        elif not task.cancelled():
            task.exception()  # looked at, so that nobody reports it as forgotten
        return task

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel the work, which is given up where it goes on."""
        task.cancel()
        self._grace.begin()

    def relax(self) -> None:
        """The work has come to its result, or to none, and may take its time over what is left of it."""
        self._grace.end()
        self._is_resulting = False

    def give_up(self, why: str) -> None:
        """Stop waiting, for the reason `why`."""
        if not self._given_up.done():
            self._given_up.set_result(why)
            self._tell_of(is_running=True)
            if _tell.get() is None:
                _LOG.warning("given up: %s", why)

    def discard_late_result(self) -> None:
        """A result came after the end of its time and is discarded."""
        if self._is_resulting and not self._given_up.done():
            self._tell_of(is_running=False)

    def _tell_of(self, *, is_running: bool) -> None:
        straggler = Straggler(has_result=self._is_resulting, is_running=is_running)
        self._is_resulting = False
        if (tell := _tell.get()) is not None:
            tell(straggler)

    async def _watched(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        _supervision.set(self)
        return await work()


async def supervise(work: Callable[[], Awaitable[ResultT]], *, grace_s: float) -> ResultT:
    """Await `work()`; it is given up where it goes on for longer than `grace_s` after the caller was cancelled.

    Raises:
        AbandonedError: A deadline inside was ignored for too long.
        Exception: Whatever `work` raised.
    """
    supervision = Supervision(grace_s=grace_s)
    task = await supervision.wait(work)
    if supervision.is_cancelled:
        if task.done() and not task.cancelled() and task.exception() is None:
            supervision.discard_late_result()
        raise asyncio.CancelledError
    if supervision.given_up is not None:
        raise AbandonedError(supervision.given_up)
    return task.result()


def current_supervision() -> Supervision | None:
    """Return who waits for the work that is being done."""
    return _supervision.get()


def _abandon(task: asyncio.Task[Any]) -> None:
    """Let `task` run on by itself.

    The end of the event loop must not wait for it: `asyncio.run` would cancel it once more, and then wait for ever. So
    it is taken out of `asyncio.all_tasks()`, by the function that asyncio has for tasks of others' making.
    """
    asyncio._unregister_task(task)  # noqa: SLF001  # documented under "Extending"
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # as asyncio's own gather does
    _abandoned.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
