"""The end of an environment: closed exactly once, on every path, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from artkit.episodes import FailureKind, FailureRecord

if TYPE_CHECKING:
    from artkit.environments.environment import Environment
    from artkit.episodes import Episode

__all__ = ["run_then_close"]


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

    Args:
        run: Plays the episode; raises what it likes.
        environment: What is closed after it.
        episode: Its log gets an error of `close`, which must not cost the turns that were played.
        close_timeout_s: How long `close` may take, in seconds, before it is cancelled; None is no limit.

    Raises:
        Exception: Whatever `run` raised.
    """
    is_closing = is_cancelled = False

    async def run_and_close() -> None:
        nonlocal is_closing
        try:
            await run()
        finally:
            is_closing = True
            await _close(environment, episode, close_timeout_s)

    task = asyncio.create_task(run_and_close())
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
            if not is_closing:
                task.cancel()
    if is_cancelled:
        if not task.cancelled():
            task.exception()  # looked at, so that nobody reports it as forgotten
        raise asyncio.CancelledError
    task.result()


async def _close(environment: Environment[Any], episode: Episode, timeout_s: float | None) -> None:
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            await environment.close()
    except asyncio.CancelledError:
        # Nobody cancels this task while it closes: `close` did it itself.
        episode.log("close() was cancelled from within")
    except Exception as error:  # noqa: BLE001  # a user's close may raise anything
        failure = FailureRecord.from_exception(error, FailureKind.ENVIRONMENT)
        late = f"it took longer than {timeout_s} s"
        episode.log(f"close() failed: {late if deadline.expired() else failure}")
