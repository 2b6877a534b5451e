"""An environment is closed exactly once, on every path, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from artkit.environments import Action, Environment, StepResult, run_then_close
from artkit.episodes import Episode


class Closing(Environment[Any]):
    """Counts how often it was closed, and how often to the end."""

    def __init__(self, close: Callable[[], Awaitable[None]] | None = None) -> None:
        self.begun = 0
        self.closed = 0
        self._close = close

    async def reset(self, scenario: Any) -> str:
        return "go"

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True)

    async def close(self) -> None:
        self.begun += 1
        if self._close is not None:
            await self._close()
        self.closed += 1


async def nothing() -> None:
    """A run that has nothing to do."""


async def fails() -> None:
    raise KeyError("door")


async def hangs() -> None:
    await asyncio.Event().wait()


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def test_it_is_closed_after_a_run() -> None:
    """The usual case."""
    environment = Closing()

    await run_then_close(nothing, environment, Episode())

    assert environment.closed == 1


async def test_it_is_closed_after_an_error_which_is_passed_on() -> None:
    """What the run raised is what the caller must sort."""
    environment = Closing()

    with pytest.raises(KeyError, match="door"):
        await run_then_close(fails, environment, Episode())

    assert environment.closed == 1


async def test_run_and_close_share_a_task() -> None:
    """A task group or a session that reset opened can be closed only by the task that opened it."""
    tasks = []

    async def note() -> None:
        tasks.append(asyncio.current_task())

    await run_then_close(note, Closing(note), Episode())

    assert tasks[0] is tasks[1]


async def test_an_error_of_close_goes_to_the_log() -> None:
    """It must not cost the turns that were played."""
    episode = Episode()

    await run_then_close(nothing, Closing(fails), episode)

    assert episode.logs == ["close() failed: KeyError: 'door'"]


async def test_a_close_that_is_no_coroutine_goes_to_the_log() -> None:
    """A plain `def close` did its work; only the promise to be async is broken."""

    class Plain(Closing):
        def close(self) -> None:  # type: ignore[override]  # the mistake
            self.closed += 1

    environment, episode = Plain(), Episode()
    await run_then_close(nothing, environment, episode)

    assert environment.closed == 1
    assert episode.logs[0].startswith("close() failed: TypeError")


async def test_a_close_that_cancels_itself_goes_to_the_log() -> None:
    """Nobody cancelled the rollout, so nobody may be told so."""
    episode = Episode()

    await run_then_close(nothing, Closing(cancels_itself), episode)

    assert episode.logs == ["close() was cancelled from within"]


async def test_a_close_that_hangs_is_given_up() -> None:
    """One lost container must not hold the whole run for ever."""
    episode = Episode()

    await run_then_close(nothing, Closing(hangs), episode, close_timeout_s=0.01)

    assert episode.logs == ["close() failed: it took longer than 0.01 s"]


async def test_an_error_of_close_never_hides_that_of_the_run() -> None:
    """The first is the cause, the second often its consequence."""
    episode = Episode()

    with pytest.raises(KeyError, match="door"):
        await run_then_close(fails, Closing(cancels_itself), episode)

    assert episode.logs == ["close() was cancelled from within"]


async def test_cancelling_ends_the_run_and_closes() -> None:
    """A cancelled gather must leave no container behind."""
    environment = Closing()
    started = asyncio.Event()

    async def run() -> None:
        started.set()
        await hangs()

    task = asyncio.create_task(run_then_close(run, environment, Episode()))
    await started.wait()
    task.cancel()
    await asyncio.wait({task})

    assert (task.cancelled(), environment.closed) == (True, 1)


async def test_cancelling_at_once_closes_too() -> None:
    """The environment exists already; a task that was cancelled before its first step would never close it."""
    environment = Closing()

    async def caller() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await run_then_close(hangs, environment, Episode())

    task = asyncio.create_task(caller())
    await asyncio.wait({task})

    assert (task.cancelled(), environment.closed) == (True, 1)


async def test_cancelling_while_it_closes_lets_it_finish() -> None:
    """An impatient second Ctrl-C must not cut the clean-up."""
    closing, finish = asyncio.Event(), asyncio.Event()

    async def close() -> None:
        closing.set()
        await finish.wait()

    environment = Closing(close)
    task = asyncio.create_task(run_then_close(hangs, environment, Episode()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await closing.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    still_closing = not task.done()
    finish.set()
    await asyncio.wait({task})

    assert still_closing
    assert (task.cancelled(), environment.begun, environment.closed) == (True, 1, 1)


async def test_a_run_that_survives_its_cancellation_is_cancelled_for_the_caller() -> None:
    """The caller asked to stop: a user's `except BaseException` must not turn that into a result."""
    started = asyncio.Event()

    async def stubborn() -> None:
        started.set()
        try:
            await hangs()
        except asyncio.CancelledError:
            raise KeyError("door") from None

    environment = Closing()
    task = asyncio.create_task(run_then_close(stubborn, environment, Episode()))
    await started.wait()
    task.cancel()
    await asyncio.wait({task})

    assert (task.cancelled(), environment.closed) == (True, 1)
