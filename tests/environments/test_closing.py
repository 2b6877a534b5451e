"""An environment is closed exactly once, on every path, to the end."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artkit.environments import Action, Environment, StepResult, closing, run_then_close
from artkit.episodes import Episode
from artkit.errors import EnvironmentContractError
from artkit.transport import run_off_loop


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


class Thread:
    """A run that is cut short and leaves its thread behind, until that is released."""

    def __init__(self) -> None:
        self.is_begun = asyncio.Event()
        self.is_left = asyncio.Event()
        self.released = threading.Event()
        self.order: list[str] = []
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Work for ever, and be cancelled."""
        try:
            await run_off_loop(self._work, what="the tool 'look'", error=EnvironmentContractError)
        finally:
            self.is_left.set()

    async def run_too_long(self) -> None:
        """Have a deadline."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await self.run()

    async def close(self) -> None:
        self.order.append("closed")

    def _work(self) -> None:
        self._loop.call_soon_threadsafe(self.is_begun.set)
        self.released.wait(30)
        self.order.append("thread ended")


@pytest.fixture
async def thread() -> AsyncIterator[Thread]:
    made = Thread()
    yield made
    made.released.set()


STILL = "the tool 'look' still ran in a thread when the episode was over: close() is called once it has ended"


async def test_it_is_not_closed_while_a_thread_works_in_it(thread: Thread) -> None:
    """A database that is closed under a query ends the interpreter."""
    episode = Episode()
    task = asyncio.create_task(run_then_close(thread.run_too_long, Closing(thread.close), episode))
    await thread.is_left.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert thread.order == []
    thread.released.set()
    await task

    assert (thread.order, episode.logs) == (["thread ended", "closed"], [])


async def test_a_thread_that_hangs_holds_the_closing_and_not_the_episode(thread: Thread) -> None:
    """It cannot be ended; an environment that is closed late is better than one that is closed under it."""
    is_closed = asyncio.Event()

    async def close() -> None:
        await thread.close()
        is_closed.set()

    environment, episode = Closing(close), Episode()
    await run_then_close(thread.run_too_long, environment, episode, close_timeout_s=0.01)
    at_the_end = list(thread.order)
    thread.released.set()
    await is_closed.wait()

    assert (at_the_end, thread.order, environment.begun) == ([], ["thread ended", "closed"], 1)
    assert episode.logs == [STILL]


async def test_what_goes_wrong_in_a_late_close_goes_to_the_log(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it any more."""
    episode = Episode()
    await run_then_close(thread.run_too_long, Closing(fails), episode, close_timeout_s=0.01)
    is_logged = asyncio.Event()
    monkeypatch.setattr(Episode, "log", lambda self, line: (self.logs.append(line), is_logged.set()))
    thread.released.set()
    await is_logged.wait()

    assert episode.logs == [STILL, "close() failed: KeyError: 'door'"]


@pytest.mark.parametrize("when", ["in the run", "while it waits"])
async def test_cancelling_waits_for_a_thread_only_briefly(
    thread: Thread, when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ctrl-C must end, and names what it leaves behind: the episode and its log are gone."""
    monkeypatch.setattr(closing, "_THREADS_GRACE_S", 0.01)
    environment = Closing(thread.close)
    run = thread.run if when == "in the run" else thread.run_too_long
    task = asyncio.create_task(run_then_close(run, environment, Episode(), close_timeout_s=3600))
    await (thread.is_begun if when == "in the run" else thread.is_left).wait()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert (task.cancelled(), environment.begun) == (True, 0)
    assert caplog.messages == [f"Closing: {STILL}"]


async def test_several_threads_end_before_it_is_closed_once(thread: Thread) -> None:
    """Tools that run side by side leave as many."""
    is_closed = asyncio.Event()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(thread.run_too_long())
            group.create_task(thread.run_too_long())

    async def close() -> None:
        await thread.close()
        is_closed.set()

    environment = Closing(close)
    await run_then_close(run, environment, Episode(), close_timeout_s=0.01)
    thread.released.set()
    await is_closed.wait()

    assert (thread.order, environment.begun) == (["thread ended", "thread ended", "closed"], 1)


INTERRUPTED = """
import asyncio, os, signal, time
from artkit import Rollout, Scenario, ToolEnvironment, tool
from artkit.testing import ChatServer, Reply

class Desk(ToolEnvironment[Scenario]):
    async def reset(self, scenario):
        return "go"

    @tool
    def wait(self) -> None:
        "Interrupt the program, and go on."
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(3600)

async def main():
    async with ChatServer([Reply(tool_calls=[("wait", {})])]) as server:
        await Rollout(Desk)(server.model(), Scenario(id="s"))

asyncio.run(main())
"""


def test_a_tool_that_cannot_be_ended_does_not_keep_the_process(tmp_path: Path) -> None:
    """Its thread is cut off with it, and named."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    ended = subprocess.run(
        [sys.executable, "interrupted.py"],
        cwd=tmp_path, timeout=50, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode != 0
    assert "Desk: the tool 'wait' still ran in a thread when the episode was over" in ended.stderr
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")
