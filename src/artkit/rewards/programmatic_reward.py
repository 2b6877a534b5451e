"""A reward that a program works out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards.adapter import Answer, OnError, RewardAdapter, check_on_error
from artkit.rewards.graders.text_grader import makes_grader
from artkit.rewards.off_loop import is_async, off_loop_slots
from artkit.rewards.settings import check_positive
from artkit.transport import own_cancellation, run_off_loop

if TYPE_CHECKING:
    import art

    from artkit.rewards.score import Score

__all__ = ["Grader", "ProgrammaticReward"]

Grader: TypeAlias = "Callable[[Any], Score | float | Awaitable[Score | float | None] | None]"
"""Given an episode, returns its score, a number, a bool (1.0 or 0.0), or None: it can't be scored."""


class ProgrammaticReward(RewardAdapter):
    """Rewards each episode with what `fn(episode)` returns.

    The members of a group are scored at the same time, each on its own: an exception costs its member only, unless
    `on_error` says otherwise. A synchronous `fn` runs in a thread, off the event loop, so it must not write what
    another call reads; at most 32 such calls are waited for at once, in all rewards together. At its deadline an async
    `fn` is cancelled; a thread can't be: it frees its place and runs on beside the others until it ends by itself.

    Args:
        fn: Scores one episode; sync or async.
        timeout_s: The deadline of one call, in seconds from when it begins; None is no limit.
        on_error: What an exception, a passed deadline or a value that is no finite number leads to.

    Raises:
        ConfigurationError: `fn` is no function of one episode, or `timeout_s` is no positive finite number.
    """

    def __init__(self, fn: Grader, *, timeout_s: float | None = 60.0, on_error: OnError = "drop_member") -> None:
        _check_function(fn)
        if timeout_s is not None:
            check_positive("timeout_s", timeout_s, "give seconds, or None for no limit")
        check_on_error(on_error)
        self.fn = fn
        self.timeout_s = timeout_s
        self.on_error = on_error

    async def score(self, group: art.TrajectoryGroup) -> list[Answer]:
        """Return what `fn` says of each member, or the exception it ended in."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._answer(trajectory)) for trajectory in group.trajectories]
        return [task.result() for task in running]

    async def _answer(self, trajectory: art.Trajectory) -> Answer:
        try:
            async with asyncio.timeout(None) as deadline:
                with own_cancellation(repr(self), RewardError):
                    return await self._call(trajectory, deadline)
        except TimeoutError as error:
            if not deadline.expired():
                return error  # fn's own
            problem = f"{self!r}: a call took longer than timeout_s={self.timeout_s:g}"
            return RewardError(problem, "raise timeout_s, or find out what fn waits for")
        except Exception as error:  # noqa: BLE001  # the adapter decides what it leads to
            return error

    async def _call(self, trajectory: art.Trajectory, deadline: asyncio.Timeout) -> Answer:
        if is_async(self.fn):
            self._begin(deadline)
            answer = self.fn(trajectory)
        else:
            async with off_loop_slots:
                self._begin(deadline)
                answer = await run_off_loop(
                    lambda: self.fn(trajectory), what="a function that scores", error=RewardError
                )
        return await answer if inspect.isawaitable(answer) else answer

    def _begin(self, deadline: asyncio.Timeout) -> None:
        if self.timeout_s is not None:
            deadline.reschedule(asyncio.get_running_loop().time() + self.timeout_s)

    def __repr__(self) -> str:
        name = getattr(self.fn, "__qualname__", repr(self.fn))
        return f"ProgrammaticReward({name}, timeout_s={self.timeout_s!r}, on_error={self.on_error!r})"


def _check_function(fn: Any) -> None:
    if isinstance(fn, RewardAdapter):
        raise ConfigurationError(f"fn={fn!r} is a reward already", "give it itself, without ProgrammaticReward")
    if isinstance(fn, type):
        hint = "without ProgrammaticReward" if issubclass(fn, RewardAdapter) else "an object of it"
        raise ConfigurationError(f"fn={fn.__name__} is a class", f"give {fn.__name__}(…), {hint}")
    if makes_grader(fn):
        raise ConfigurationError(
            f"fn={fn.__name__} makes a grader when it is called, and is none itself", f"give {fn.__name__}(…)"
        )
    if not callable(fn):
        raise ConfigurationError(f"fn={fn!r} can't be called", "give a function of one episode")
