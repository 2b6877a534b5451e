"""A gather that is cancelled, or stops by itself, leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import FailurePolicy
from artkit.errors import AllRolloutsFailedError
from artkit.rollouts import Rollout, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply

SCENARIOS = [Scenario(id=f"s{number}") for number in range(4)]


class Counting(Environment[Scenario]):
    """Notes how often each instance was closed."""

    made: list[Counting]

    def __init__(self) -> None:
        self.closed = 0
        type(self).made.append(self)

    def __init_subclass__(cls) -> None:
        cls.made = []

    async def reset(self, scenario: Scenario) -> str:
        return "go"

    async def step(self, action: Action) -> StepResult:
        return StepResult("on")

    async def close(self) -> None:
        self.closed += 1

    @classmethod
    def closings(cls) -> set[int]:
        return {environment.closed for environment in cls.made}


async def until(condition: Callable[[], object]) -> None:
    """Give way until something has happened; the test's own time-out ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  # a fact of the server, which tells nobody
        await asyncio.sleep(0.001)


async def own_tasks(work: Awaitable[Any]) -> tuple[BaseException | None, set[asyncio.Task[Any]]]:
    """Return how `work` ended, and the tasks that it left behind."""
    before = asyncio.all_tasks()
    [outcome] = await asyncio.gather(work, return_exceptions=True)
    await asyncio.sleep(0)
    return outcome, asyncio.all_tasks() - before


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("max_concurrent", [None, 3])
async def test_cancelling_ends_every_rollout_and_closes_every_environment_once(
    times: int, max_concurrent: int | None
) -> None:
    """ART's own gather ran on for as long as its rollouts did, and the first Ctrl-C had no effect."""

    class Hanging(Counting):
        async def step(self, action: Action) -> StepResult:
            await asyncio.Event().wait()
            return StepResult()

        async def close(self) -> None:
            await asyncio.sleep(0.01)
            await super().close()

    expected = max_concurrent or 16
    async with ChatServer(lambda body: "hi") as server:
        gather = asyncio.create_task(
            gather_groups(Rollout(Hanging), server.model(), SCENARIOS, max_concurrent=max_concurrent)
        )
        await until(lambda: len(server.requests) == expected)
        for _ in range(times):
            gather.cancel()
            await asyncio.sleep(0.001)
        _, left = await own_tasks(gather)

    assert gather.cancelled()
    assert (len(Hanging.made), Hanging.closings()) == (expected, {1})
    assert left == set()
    assert len(server.requests) == expected


async def test_cancelling_while_a_group_is_scored_ends_the_scoring() -> None:
    """A judge is paid by the call."""
    judging = asyncio.Event()

    class Done(Counting):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    async def judge(group: Any) -> Any:
        judging.set()
        await asyncio.Event().wait()

    async with ChatServer(lambda body: "hi") as server:
        gather = asyncio.create_task(gather_groups(Rollout(Done), server.model(), SCENARIOS, reward=judge))
        await judging.wait()
        gather.cancel()
        await asyncio.wait({gather})

    assert (gather.cancelled(), Done.closings()) == (True, {1})


async def test_a_deadline_around_a_gather_holds() -> None:
    """`asyncio.timeout` works by cancelling."""

    class Endless(Counting):
        max_turns = 1_000_000

    async with ChatServer(lambda body: Reply("hi", delay_s=0.01)) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await gather_groups(Rollout(Endless), server.model(), SCENARIOS)

    assert Endless.closings() == {1}


async def test_what_was_finished_is_with_the_cancellation() -> None:
    """It was paid for, and a program of one's own may want to keep it."""
    playing = asyncio.Event()

    class First(Counting):
        async def reset(self, scenario: Scenario) -> str:
            if scenario.id == "s1":
                playing.set()
                await asyncio.Event().wait()
            return "go"

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    async with ChatServer(lambda body: "hi") as server:
        gather = gather_groups(Rollout(First), server.model(), SCENARIOS[:2], rollouts_per_group=1, max_concurrent=1)
        task = asyncio.create_task(gather)
        await playing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task

    gathered = vars(raised.value)["gathered"]
    assert [len(group.trajectories) for group in gathered.groups] == [1, 0]
    assert (gathered.counts.started, gathered.counts.grouped) == (1, 1)


async def test_a_failure_that_stops_the_gather_closes_the_others_environments() -> None:
    """When it raises, nothing runs on."""

    class One(Counting):
        async def reset(self, scenario: Scenario) -> str:
            if scenario.id == "s3":
                raise OSError("no container")
            await asyncio.Event().wait()
            return "go"

    async with ChatServer([]) as server:
        work = gather_groups(Rollout(One), server.model(), SCENARIOS, max_exceptions=0)
        outcome, left = await own_tasks(work)

    assert isinstance(outcome, AllRolloutsFailedError)
    assert (One.closings(), left) == ({1}, set())


async def test_a_listener_that_fails_stops_the_gather_and_leaves_nothing() -> None:
    """Its exception is the caller's own, and comes as it is."""

    class Done(Counting):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    def listener(event: Any) -> None:
        raise ZeroDivisionError

    async with ChatServer(lambda body: "hi") as server:
        work = gather_groups(Rollout(Done), server.model(), SCENARIOS, on_event=listener)
        outcome, left = await own_tasks(work)

    assert isinstance(outcome, ZeroDivisionError)
    assert (Done.closings(), left) == ({1}, set())


@pytest.mark.parametrize("where", ["factory", "reset", "tools", "step", "close"])
async def test_every_environment_that_was_made_is_closed_once_wherever_it_fails(where: str) -> None:
    """On every path."""

    class Failing(Counting):
        def __init__(self) -> None:
            if where == "factory":
                raise OSError("no container")
            super().__init__()

        def tools(self) -> Any:
            return fail() if where == "tools" else ()

        async def reset(self, scenario: Scenario) -> str:
            return fail() if where == "reset" else "go"

        async def step(self, action: Action) -> StepResult:
            return fail() if where == "step" else StepResult(done=True)

        async def close(self) -> None:
            await super().close()
            if where == "close":
                fail()

    def fail() -> Any:
        raise KeyError(where)

    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(Failing, failure_policy=FailurePolicy(keep={"environment"}, rollout_retries=1))
        work = gather_groups(rollout, server.model(), SCENARIOS[:1], rollouts_per_group=2)
        _, left = await own_tasks(work)

    made = {"factory": 0, "close": 2}.get(where, 4)
    assert (len(Failing.made), Failing.closings() - {1}, left) == (made, set(), set())


async def test_a_cancelled_request_is_hung_up() -> None:
    """The server would go on sampling for nobody."""

    class Done(Counting):
        pass

    async with ChatServer(lambda body: Reply("late", delay_s=60)) as server:
        gather = asyncio.create_task(gather_groups(Rollout(Done), server.model(), SCENARIOS))
        await until(lambda: len(server.requests) == 16)
        gather.cancel()
        await asyncio.wait({gather})
        await until(lambda: server._in_flight == 0)

    assert gather.cancelled()


async def test_cancelling_ends_captured_rollouts_too() -> None:
    """A wrapped function is cancelled like any other; its turns are not returned as if it had failed."""

    async def rollout(model: Any, scenario: Scenario) -> Any:
        client = model.openai_client()
        await client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "hi"}])
        await asyncio.Event().wait()

    async with ChatServer(lambda body: "hi") as server:
        model = server.model()
        gather = asyncio.create_task(gather_groups(capture_partial(rollout), model, SCENARIOS))
        await until(lambda: len(server.requests) == 16)
        gather.cancel()
        await asyncio.wait({gather})
        await model.openai_client().close()

    assert gather.cancelled()
