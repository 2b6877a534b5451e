"""The end of an environment: closed exactly once, on every path, to the end, and by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from artkit.episodes import FailureKind, FailureRecord
from artkit.errors import EnvironmentContractError
from artkit.transport import AbandonedError, Deadline, Supervision, own_exits
from artkit.transport.off_loop import note_threads

if TYPE_CHECKING:
    from artkit.environments.environment import Environment
    from artkit.episodes import Episode

__all__ = ["run_then_close"]

_LOG = logging.getLogger(__name__)

# How long threads of the environment are waited for: where `close` has no limit, and where the caller was cancelled and
# is to end at once.
_THREADS_TIMEOUT_S = 5.0
_THREADS_GRACE_S = 0.5

_late: set[asyncio.Task[None]] = set()
"""Closings that nobody waits for: an event loop holds its tasks weakly."""


async def run_then_close(
    run: Callable[[], Awaitable[None]],
    environment: Environment[Any],
    episode: Episode,
    *,
    close_timeout_s: float | None = None,
) -> None:
    """Await `run()`, then close `environment`, whatever happened, also while the caller is being cancelled.

    Both happen in one task of their own, for what `reset` opened (a task group, a session with a tool server) can often
    be closed only by the task that opened it. Cancelling the caller cancels the run and never the closing, however
    often it is repeated; the caller gets its cancellation once all is closed.

    A run that goes on after it was cancelled, or after one of its deadlines, is given up: the environment is closed
    under it, for that may end it, and the caller is kept no longer. So is a `close` that ignores its own deadline.

    A thread that `run` has left behind, of a tool that was cut short, still works on what `close` releases: closing a
    database under a query ends the interpreter. Such threads are waited for, for as long as `close` may take, or half a
    second where the caller was cancelled. Where one runs on, the caller is not kept: `close` follows when it has ended,
    and never where the event loop ends first. The log says so.

    Args:
        run: Plays the episode; raises what it likes.
        environment: What is closed after it.
        episode: Its log gets an error of `close`, which must not cost the turns that were played.
        close_timeout_s: How long `close` may take, in seconds, before it is cancelled; None is no limit.

    Raises:
        AbandonedError: The run was given up after a deadline.
        Exception: Whatever `run` raised.
    """
    await _Ending(run, environment, episode, close_timeout_s).wait()


class _Ending:
    """One run, and the closing after it."""

    def __init__(
        self,
        run: Callable[[], Awaitable[None]],
        environment: Environment[Any],
        episode: Episode,
        close_timeout_s: float | None,
    ) -> None:
        self._run = run
        self._environment = environment
        self._episode = episode
        self._close_timeout_s = close_timeout_s
        self._supervision = Supervision()
        self._threads: Mapping[asyncio.Future[Any], str] = {}
        self._waiting: asyncio.Timeout | None = None
        self._error: BaseException | None = None
        self._is_closing = self._is_cancelled = False

    async def wait(self) -> None:
        task = await self._supervision.wait(self._run_and_close, on_cancel=self._on_cancel)
        given_up, was_closing = self._supervision.given_up, self._is_closing
        if given_up is not None and was_closing:
            self._episode.log(f"close() failed: {given_up}")
        elif given_up is not None:
            self._is_closing = True
            self._supervision = Supervision()
            await self._supervision.wait(self._close, on_cancel=self._on_cancel)
        if self._is_cancelled:
            raise asyncio.CancelledError
        if given_up is None:
            task.result()
        elif not was_closing:
            raise AbandonedError(given_up)
        elif self._error is not None:
            # Taken from what runs on: its traceback leads to all that waited for this run.
            error, self._error = self._error, None
            raise error

    async def _run_and_close(self) -> None:
        with note_threads() as self._threads:
            try:
                with own_exits("the environment", EnvironmentContractError):
                    await self._run()
            except BaseException as error:  # noqa: BLE001  # raised below: what closes then must not hold it
                self._error = error
            if not self._is_closing and self._supervision.given_up is None:  # else its end comes late
                await self._close()
        if self._error is not None:
            raise self._error

    def _on_cancel(self, task: asyncio.Task[None]) -> None:
        is_first, self._is_cancelled = not self._is_cancelled, True
        if not self._is_closing:
            if is_first:
                self._supervision.cancel(task)
        elif self._waiting is not None and not self._waiting.expired():
            soon_s = asyncio.get_running_loop().time() + _THREADS_GRACE_S
            self._waiting.reschedule(min(self._waiting.when() or soon_s, soon_s))

    async def _close(self) -> None:
        self._is_closing = True
        self._supervision.relax()
        usual_s = _THREADS_TIMEOUT_S if self._close_timeout_s is None else self._close_timeout_s
        if self._threads:
            self._waiting = asyncio.timeout(_THREADS_GRACE_S if self._is_cancelled else usual_s)
            with contextlib.suppress(TimeoutError):
                async with self._waiting:
                    await asyncio.wait(self._threads)
            self._waiting = None
        if self._threads:
            what = self._threads, self._environment, self._episode, self._close_timeout_s
            _close_later(*what, is_lost=self._is_cancelled)
            return
        supervision = self._supervision
        failure = await _close(self._environment, self._close_timeout_s)
        if failure and supervision.given_up is None:
            self._episode.log(failure)


def _close_later(
    threads: Mapping[asyncio.Future[Any], str],
    environment: Environment[Any],
    episode: Episode,
    timeout_s: float | None,
    *,
    is_lost: bool,
) -> None:
    """Close `environment` when the last of `threads` has ended.

    Args:
        threads: Those that run, each leaving the mapping when it ends.
        environment: As for `run_then_close`.
        episode: As for `run_then_close`.
        timeout_s: As for `run_then_close`.
        is_lost: Whether nobody will get to see the episode's log.
    """
    who = ", ".join(sorted(set(threads.values())))
    what = f"{who} still ran in a thread when the episode was over: close() is called once it has ended"
    episode.log(what)
    if is_lost:
        _LOG.warning("%s: %s", type(environment).__qualname__, what)

    async def close() -> None:
        if failure := await _close(environment, timeout_s):
            episode.log(failure)

    def close_after_the_last(_: asyncio.Future[Any]) -> None:
        if not threads:
            task = asyncio.get_running_loop().create_task(close())
            _late.add(task)
            task.add_done_callback(_late.discard)

    # No task waits meanwhile: one would be left at the end of the event loop where the thread never ends.
    for ended in tuple(threads):
        ended.add_done_callback(close_after_the_last)


async def _close(environment: Environment[Any], timeout_s: float | None) -> str:
    """Close `environment`; return what went wrong, in words."""
    deadline = Deadline(timeout_s, lambda: f"it took longer than {timeout_s} s", is_result=False)
    try:
        async with deadline:
            with own_exits("close()", EnvironmentContractError):
                await environment.close()
    except asyncio.CancelledError:
        # Nobody cancels this task while it closes: `close` did it itself.
        return "close() was cancelled from within"
    except Exception as error:  # noqa: BLE001  # a user's close may raise anything
        failure = FailureRecord.from_exception(error, FailureKind.ENVIRONMENT)
        return f"close() failed: {error if deadline.expired else failure}"
    return ""
