"""What ignores that it is cancelled is given up, named, and counted apart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import FailurePolicy, StopReason
from artkit.rollouts import GatherCounts, Limits, Rollout, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer

ONE = [Scenario(id="s0")]


async def deaf(until: Callable[[], bool]) -> None:
    """Wait until something has happened, whatever is asked of the caller meanwhile."""
    while not until():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.005)


class Deaf(Environment[Scenario]):
    """Of each class the first instance goes on in `step` until it is let go, whatever is asked of it."""

    made: list[Deaf]
    is_let_go = False

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self) -> None:
        self.closed = 0
        self.has_returned = False
        self.made.append(self)

    async def reset(self, scenario: Scenario) -> str:
        return "go"

    async def step(self, action: Action) -> StepResult:
        if self is self.made[0]:
            await deaf(lambda: type(self).is_let_go)
        self.has_returned = True
        return StepResult("on", done=self is not self.made[0], reward=1.0)

    async def close(self) -> None:
        self.closed += 1


async def own_tasks(work: Any) -> tuple[Any, set[str]]:
    """Return how `work` ended, and the tasks that it left behind."""
    before = asyncio.all_tasks()
    [outcome] = await asyncio.gather(work, return_exceptions=True)
    await asyncio.sleep(0)
    return outcome, {repr(task) for task in asyncio.all_tasks() - before if "artkit" in repr(task)}


@pytest.mark.parametrize("late_s", [0.1, 2.0])
async def test_of_two_attempts_the_late_result_of_the_first_is_discarded_and_counted(late_s: float) -> None:
    """Once a re-queued rollout's first attempt came in late, and the trainer died of an id that it no longer knew."""

    class Late(Deaf):
        async def step(self, action: Action) -> StepResult:
            if self is self.made[0]:
                over_s = asyncio.get_running_loop().time() + 0.2 + late_s
                await deaf(lambda: asyncio.get_running_loop().time() > over_s)
                return StepResult(done=True, reward=-1.0)
            return StepResult(done=True, reward=1.0)

    policy = FailurePolicy(rollout_retries=1)
    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(Late, limits=Limits(episode_timeout_s=0.2), failure_policy=policy)
        gathered = await gather_groups(rollout, server.model(), ONE, rollouts_per_group=1)

    [episode] = gathered.groups[0].trajectories
    assert (episode.reward, episode.metrics["retries"], episode.metrics["turns"]) == (1.0, 1, 1)
    is_given_up = late_s > 1
    assert gathered.counts == GatherCounts(started=1, grouped=1, late_results=1, abandoned=int(is_given_up), replayed=1)
    assert gathered.abandoned == (("s0, member 0",) if is_given_up else ())
    assert [environment.closed for environment in Late.made] == [1, 1]


async def test_a_rollout_that_is_given_up_frees_its_place_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The rest would wait behind it for ever."""

    class Stuck(Deaf):
        pass

    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(Stuck, limits=Limits(episode_timeout_s=0.2))
        gathered = await gather_groups(rollout, server.model(), ONE, max_concurrent=1)
        [episode] = gathered.lost
        turns = list(episode.messages_and_choices)
        Stuck.is_let_go = True
        while not Stuck.made[0].has_returned:  # noqa: ASYNC110  # the environment tells nobody
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)

    assert gathered.counts == GatherCounts(started=4, grouped=3, lost={"environment": 1}, late_results=1, abandoned=1)
    assert gathered.abandoned == ("s0, member 0",)
    assert "1 of the rollouts (s0, member 0)" in caplog.text
    assert (episode.stop_reason, episode.failure.message) == (  # type: ignore[attr-defined]
        StopReason.TIMEOUT,
        "the episode passed its 0.2 s while waiting for the environment, and went on when it was cancelled",
    )
    assert [environment.closed for environment in Stuck.made] == [1] * 4
    # What comes late is added to nothing.
    assert (episode.messages_and_choices, episode.metrics["turns"], episode.environment_reward) == (turns, 1, 0.0)  # type: ignore[attr-defined]


async def test_a_rollout_of_which_much_goes_on_is_one_that_was_given_up() -> None:
    """Its play and its `close` both do, and so does what was played in its place."""

    class Stuck(Deaf):
        async def step(self, action: Action) -> StepResult:
            await deaf(lambda: type(self).is_let_go)
            return StepResult(done=True)

        async def close(self) -> None:
            await super().close()
            await deaf(lambda: type(self).is_let_go)

    async with ChatServer(lambda body: "hi") as server:
        limits = Limits(episode_timeout_s=0.2, tool_timeout_s=0.1)
        rollout = Rollout(Stuck, limits=limits, failure_policy=FailurePolicy(rollout_retries=1, keep={"environment"}))
        gathered = await gather_groups(rollout, server.model(), ONE, rollouts_per_group=1)
        Stuck.is_let_go = True

    assert [environment.closed for environment in Stuck.made] == [1, 1]
    assert (gathered.counts.abandoned, gathered.abandoned) == (1, ("s0, member 0",))


async def test_a_gather_that_is_cancelled_does_not_wait_for_who_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """One `except BaseException` in a user's code made Ctrl-C ineffective; it is named, so that it can be mended."""

    class Stuck(Deaf):
        pass

    async with ChatServer(lambda body: "hi") as server:
        work = asyncio.create_task(gather_groups(Rollout(Stuck), server.model(), ONE, rollouts_per_group=1))
        while not server.requests or not Stuck.made:  # noqa: ASYNC110  # facts of the server
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        work.cancel()
        outcome, left = await own_tasks(work)
        closed = [environment.closed for environment in Stuck.made]
        Stuck.is_let_go = True

    assert (type(outcome), left, closed) == (asyncio.CancelledError, set(), [1])
    assert "s0, member 0" in caplog.text


async def test_a_function_that_ignores_its_cancellation_is_given_up_too(caplog: pytest.LogCaptureFixture) -> None:
    """It has no environment that could be closed under it."""
    begun = asyncio.Event()
    is_let_go = False

    async def rollout(model: Any, scenario: Scenario) -> Any:
        begun.set()
        await deaf(lambda: is_let_go)

    work = asyncio.create_task(gather_groups(rollout, None, ONE, rollouts_per_group=1))  # type: ignore[arg-type]
    await begun.wait()
    work.cancel()
    outcome, left = await own_tasks(work)
    is_let_go = True

    assert (type(outcome), left) == (asyncio.CancelledError, set())
    assert "s0, member 0" in caplog.text


async def test_what_a_function_does_in_finally_is_not_cut_short() -> None:
    """Whoever cleans up looks like whoever goes on, and needs the time."""
    begun, is_clean = asyncio.Event(), False

    async def rollout(model: Any, scenario: Scenario) -> Any:
        nonlocal is_clean
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1.0)
            is_clean = True

    work = asyncio.create_task(gather_groups(rollout, None, ONE, rollouts_per_group=1))  # type: ignore[arg-type]
    await begun.wait()
    for _ in range(3):
        work.cancel()
        await asyncio.sleep(0.01)
    await asyncio.wait({work})

    assert (work.cancelled(), is_clean) == (True, True)


async def test_a_judge_that_ignores_its_cancellation_is_given_up() -> None:
    """Scoring is user code as well."""
    begun = asyncio.Event()
    is_let_go = False

    class Quick(Deaf):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True)

    async def judge(group: Any) -> Any:
        begun.set()
        await deaf(lambda: is_let_go)

    async with ChatServer(lambda body: "hi") as server:
        work = asyncio.create_task(gather_groups(Rollout(Quick), server.model(), ONE, reward=judge))
        await begun.wait()
        work.cancel()
        outcome, left = await own_tasks(work)
        is_let_go = True

    assert (type(outcome), left) == (asyncio.CancelledError, set())


async def test_a_close_that_ignores_its_deadline_keeps_nobody_and_costs_no_turns() -> None:
    """The episode was whole; only what it leaves behind is not."""

    class Stuck(Deaf):
        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, reward=1.0)

        async def close(self) -> None:
            await super().close()
            await deaf(lambda: type(self).is_let_go)

    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(Stuck, limits=Limits(tool_timeout_s=0.1))
        gathered = await gather_groups(rollout, server.model(), ONE, rollouts_per_group=2)
        Stuck.is_let_go = True

    assert gathered.counts == GatherCounts(started=2, grouped=2, abandoned=2)
    assert [one.logs for one in gathered.groups[0].trajectories] == [
        ["close() failed: it took longer than 0.1 s, and went on when it was cancelled"]
    ] * 2
    assert [environment.closed for environment in Stuck.made] == [1, 1]


async def test_a_rollout_alone_is_given_up_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """It works without a gather, and then the log is all there is."""

    class Stuck(Deaf):
        pass

    with caplog.at_level(logging.WARNING):
        async with ChatServer(lambda body: "hi") as server:
            episode = await Rollout(Stuck, limits=Limits(tool_timeout_s=0.1))(server.model(), ONE[0])
            Stuck.is_let_go = True

    assert (episode.stop_reason, episode.metrics["turns"]) == (StopReason.TIMEOUT, 1)
    assert "given up: step() took longer than 0.1 s, and went on when it was cancelled" in caplog.text


def test_the_end_of_an_event_loop_does_not_wait_for_who_was_given_up() -> None:
    """`asyncio.run` cancels what is left and waits for it: the process would never end."""

    class Stuck(Deaf):
        pass

    async def main() -> GatherCounts:
        async with ChatServer(lambda body: "hi") as server:
            rollout = Rollout(Stuck, limits=Limits(episode_timeout_s=0.2))
            return (await gather_groups(rollout, server.model(), ONE)).counts

    assert asyncio.run(main()).abandoned == 1
