"""What becomes of rollouts that fail, from the request to the group."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import httpx
import openai
import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import Episode, FailurePolicy, FailureRule
from artkit.errors import AllRolloutsFailedError, OutageError
from artkit.rewards import DropFailures, ProgrammaticReward
from artkit.rollouts import GatherCounts, GatheredGroups, Limits, Rollout, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply

ONCE = FailurePolicy(max_retries=0)


def scenarios(count: int) -> list[Scenario]:
    return [Scenario(id=f"s{number}") for number in range(count)]


def echo(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


class TwoTurns(Environment[Scenario]):
    """Asks twice, and writes down every instance."""

    made: list[TwoTurns]

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self) -> None:
        self.resets = self.steps = self.closes = 0
        self.made.append(self)

    async def reset(self, scenario: Scenario) -> str:
        self.resets += 1
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        self.steps += 1
        return StepResult("go on", done=self.steps == 2, reward=1.0)

    async def close(self) -> None:
        self.closes += 1


def text_of(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


async def gathered_with_a_crash(policy: FailurePolicy) -> tuple[GatheredGroups, list[TwoTurns]]:
    """Play a group of four; on turn 2 of the first play of member 2 the sandbox is gone."""

    class Crashing(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            if self.steps == 1 and self.made.index(self) == 2:
                raise ConnectionError("sandbox gone")
            return await super().step(action)

    async with ChatServer(echo) as server:
        rollout = Rollout(Crashing, failure_policy=policy)
        # One after the other, so that the third environment is that of member 2.
        gathered = await gather_groups(rollout, server.model(), scenarios(1), max_concurrent=1)
    return gathered, Crashing.made


def members(gathered: GatheredGroups) -> list[tuple[int, float]]:
    """The members that are left, and how often something was tried again for each."""
    return [(one.member, one.metrics["retries"]) for one in gathered.groups[0].trajectories if isinstance(one, Episode)]


async def test_one_crash_is_played_again_in_a_fresh_environment() -> None:
    """One container that crashes must not cost the run, nor bias the group; the broken one is never used again."""
    gathered, made = await gathered_with_a_crash(FailurePolicy(rollout_retries=1))

    assert members(gathered) == [(0, 0), (1, 0), (2, 1), (3, 0)]
    assert [(one.resets, one.closes) for one in made] == [(1, 1)] * 5
    assert gathered.counts == GatherCounts(started=4, grouped=4, replayed=1)


async def test_what_an_episode_failed_of_before_it_was_played_again_is_counted_and_told() -> None:
    """A sandbox that breaks in one episode of three would go unseen for weeks."""
    gathered, _ = await gathered_with_a_crash(FailurePolicy(rollout_retries=1))

    logs = [one.logs for one in gathered.groups[0].trajectories]
    told = "played again after a failure, environment: ConnectionError: sandbox gone"
    assert logs == [[], [], [told], []]
    assert str(gathered.counts) == "4 of 4 rollouts grouped, 1 replayed"


async def test_without_replays_the_rest_of_the_group_is_kept() -> None:
    """The default: the crash is no reward 0, and the others were paid for."""
    gathered, _ = await gathered_with_a_crash(FailurePolicy())

    assert members(gathered) == [(0, 0), (1, 0), (3, 0)]
    assert [str(one.failure) for one in gathered.lost if isinstance(one, Episode)] == ["ConnectionError: sandbox gone"]
    assert gathered.counts.causes == {"environment: ConnectionError: sandbox gone": 1}


async def test_a_filter_fails_the_whole_group() -> None:
    """The third choice, for those who fear that the hard ones crash more often."""
    gathered, _ = await gathered_with_a_crash(FailurePolicy())

    assert DropFailures({"environment"}).apply(gathered.groups).kept == []


async def test_a_crash_is_played_again_only_where_its_kind_may_be() -> None:
    """A number for the server is none for the environment."""
    gathered, made = await gathered_with_a_crash(FailurePolicy(rollout_retries={"infrastructure": 3}))

    assert (len(gathered.groups[0].trajectories), len(made)) == (3, 4)


async def test_a_rule_decides_what_a_failure_is_and_so_whether_it_stays() -> None:
    """Whoever wrote the environment knows whose doing it is: here, the model broke its sandbox."""
    rule = FailureRule("limit", error=ConnectionError, pattern="sandbox")
    gathered, _ = await gathered_with_a_crash(FailurePolicy(rules=[rule]))

    assert members(gathered) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    broken = gathered.groups[0].trajectories[2]
    assert (broken.metadata["stop_reason"], broken.metadata["failure_kind"]) == ("error", "limit")
    assert (broken.metrics["error"], broken.metrics["truncated"], broken.metrics["turns"]) == (False, False, 2)


async def test_a_refusal_that_a_rule_calls_a_limit_is_an_overflow() -> None:
    """Every server has words of its own for it."""
    rule = FailureRule("limit", status=400, pattern="no more room")

    def script(body: dict[str, Any]) -> Reply | str:
        return "hi" if len(body["messages"]) == 1 else Reply(status=400, error="no more room")

    class Talk(TwoTurns): ...

    async with ChatServer(script) as server:
        rollout = Rollout(Talk, failure_policy=FailurePolicy(rules=[rule]))
        episode = await rollout(server.model(), Scenario(id="s0"))

    assert (episode.stop_reason, episode.metrics["truncated"], episode.failure) == ("context_overflow", True, None)


async def test_a_deadline_that_a_rule_calls_a_limit_is_still_told_as_one() -> None:
    """To be slow may be what the model did."""

    class Slow(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            await asyncio.Event().wait()
            raise AssertionError

    policy = FailurePolicy(rules=[FailureRule("limit", error=TimeoutError, waiting_for="environment")])
    async with ChatServer(echo) as server:
        rollout = Rollout(Slow, failure_policy=policy, limits=Limits(tool_timeout_s=0.05))
        episode = await rollout(server.model(), Scenario(id="s0"))

    assert (episode.stop_reason, episode.metadata["failure_kind"], episode.failure) == ("timeout", "limit", None)


async def test_a_fatal_failure_ends_the_others_before_they_ask_again() -> None:
    """What is asked after it is paid for and thrown away."""
    all_wait = asyncio.Event()
    waiting = 0

    class Held(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            nonlocal waiting
            if action.text != "task s0":
                waiting += 1
                if waiting == 11:
                    all_wait.set()
                await asyncio.Event().wait()
            await all_wait.wait()
            raise PermissionError("the license has run out")

    policy = FailurePolicy(rules=[FailureRule("fatal", error=PermissionError)], rollout_retries=3, refills=3)
    async with ChatServer(echo) as server:
        rollout = Rollout(Held, failure_policy=policy)
        with pytest.raises(OutageError, match="PermissionError: the license has run out") as stopped:
            await gather_groups(rollout, server.model(), scenarios(12), rollouts_per_group=1)

    assert len(server.requests) == 12
    assert [(one.resets, one.closes) for one in Held.made] == [(1, 1)] * 12
    assert type(stopped.value.__cause__) is PermissionError


async def test_a_fatal_failure_stops_all_others_before_its_environment_is_closed() -> None:
    """Taking down a container may take a minute, in which the others go on spending."""
    others_wait, has_stopped = asyncio.Event(), asyncio.Event()

    class Licensed(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            if action.text == "task s0":
                await others_wait.wait()
                raise PermissionError("the license has run out")
            try:
                others_wait.set()
                await asyncio.Event().wait()
            finally:
                has_stopped.set()
            raise AssertionError

        async def close(self) -> None:
            await super().close()
            await asyncio.wait_for(has_stopped.wait(), 5)

    policy = FailurePolicy(rules=[FailureRule("fatal", error=PermissionError)])
    async with ChatServer(echo) as server:
        rollout = Rollout(Licensed, failure_policy=policy)
        with pytest.raises(OutageError, match="PermissionError: the license has run out") as stopped:
            await gather_groups(rollout, server.model(), scenarios(2), rollouts_per_group=1)

    assert [one.closes for one in Licensed.made] == [1, 1]
    assert stopped.value.gathered.counts == GatherCounts(started=1, failed={"fatal": 1})


async def test_what_hangs_is_named_by_its_line() -> None:
    """That a deadline passed is known; what to mend is not where the deadline stands."""

    class Hanging(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            await self.ask()
            raise AssertionError

        async def ask(self) -> None:
            await asyncio.Event().wait()

    async with ChatServer(echo) as server:
        rollout = Rollout(Hanging, limits=Limits(tool_timeout_s=0.05))
        episode = await rollout(server.model(), scenarios(1)[0])

    assert episode.failure is not None
    assert episode.failure.where == f"test_failures.py:{Hanging.ask.__code__.co_firstlineno + 1} in ask"


@pytest.mark.parametrize("is_captured", [False, True])
async def test_a_rollout_inside_another_stops_nobody_with_its_fatal_failure(is_captured: bool) -> None:
    """An environment may ask another model and be ready for its refusal."""

    class Plain(TwoTurns):
        pass

    async with ChatServer([Reply(status=401, error="no such key")] * 4) as other, ChatServer(echo) as server:

        async def ask_in_vain() -> None:
            with pytest.raises(openai.AuthenticationError):
                await Rollout(Plain)(other.model(), Scenario(id="inner"))

        class Asks(TwoTurns):
            async def reset(self, scenario: Scenario) -> str:
                await ask_in_vain()
                return await super().reset(scenario)

        async def captured(model: Any, scenario: Scenario) -> Any:
            await ask_in_vain()
            return await Rollout(Plain)(model, scenario)

        played = capture_partial(captured) if is_captured else Rollout(Asks)
        gathered = await gather_groups(played, server.model(), scenarios(1), rollouts_per_group=2)

    assert gathered.counts == GatherCounts(started=2, grouped=2)


async def test_the_real_cause_is_told_and_never_the_cancellation() -> None:
    """A task group cancels what it holds, and what was cancelled says nothing."""

    class Grouped(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.Event().wait())
                tasks.create_task(self.lose())
            raise AssertionError

        async def lose(self) -> None:
            try:
                raise OSError("no route")
            except OSError as error:
                raise ConnectionError("sandbox gone") from error

    async with ChatServer(echo) as server:
        episode = await Rollout(Grouped)(server.model(), Scenario(id="s0"))

    assert episode.failure is not None
    assert str(episode.failure) == "ConnectionError: sandbox gone (from OSError: no route)"
    assert episode.failure.where.endswith("in lose")
    assert "OSError: no route" in episode.failure.traceback


async def test_when_every_rollout_raises_the_first_error_and_the_counts_are_told() -> None:
    """An empty batch that goes on to the trainer crashes it, and hides why."""

    class Broken(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            raise RuntimeError("no such table" if len(self.made) % 4 else f"lock {len(self.made)} is held")

    async with ChatServer(echo) as server:
        with pytest.raises(AllRolloutsFailedError) as stopped:
            await gather_groups(Rollout(Broken), server.model(), scenarios(8), max_concurrent=1)

    assert "32/32 rollouts failed (32 environment); the first: RuntimeError: no such table" in stopped.value.problem
    assert stopped.value.problem.endswith(
        "all of them: 24 x environment: RuntimeError: no such table; 8 x environment: RuntimeError: lock # is held"
    )


class OneTurn(Environment[Scenario]):
    async def reset(self, scenario: Scenario) -> str:
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=1.0)


async def test_a_rate_limit_is_waited_out_as_long_as_the_server_asks() -> None:
    """Back-off that is shorter than asked for is refused again."""
    asked_s: list[float] = []

    def busy_twice(body: dict[str, Any]) -> Reply | str:
        asked_s.append(time.monotonic())
        return Reply(status=429, headers={"Retry-After": "1"}) if len(asked_s) < 3 else "ok"

    async with ChatServer(busy_twice) as server:
        episode = await Rollout(OneTurn)(server.model(), Scenario(id="s0"))

    assert (episode.metrics["retries"], episode.metrics["turns"]) == (2, 1)
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(asked_s))


async def test_a_rate_limit_without_end_is_told_once_the_budget_is_spent_and_costs_nobody_else() -> None:
    """The others are not refused."""

    def script(body: dict[str, Any]) -> Reply | str:
        return Reply(status=429, headers={"Retry-After": "1"}) if text_of(body) == "task s1" else "ok"

    async with ChatServer(script) as server:
        rollout = Rollout(OneTurn, failure_policy=FailurePolicy(max_retries=1))
        gathered = await gather_groups(rollout, server.model(), scenarios(3), rollouts_per_group=1)

    assert [len(group.trajectories) for group in gathered.groups] == [1, 0, 1]
    assert [error.type for error in gathered.groups[1].exceptions] == ["RateLimitError"]
    assert [text_of(body) for body in server.requests].count("task s1") == 2


async def test_a_budget_in_seconds_is_not_waited_beyond() -> None:
    """A server that asks for ten minutes is told as busy now."""
    async with ChatServer(lambda body: Reply(status=429, headers={"Retry-After": "100"})) as server:
        rollout = Rollout(OneTurn, failure_policy=FailurePolicy(retry_budget_s=30))
        with pytest.raises(openai.RateLimitError):
            await rollout(server.model(), Scenario(id="s0"))

    assert len(server.requests) == 1


async def test_a_rule_gives_a_failure_more_retries() -> None:
    """A gateway that answers 400 while it wakes up is worth some patience; any other 400 is not."""
    rule = FailureRule("infrastructure", status=400, pattern="waking up", retries=2)

    def script(body: dict[str, Any]) -> Reply:
        wakes = text_of(body) == "task s0"
        return Reply(status=400, error="waking up" if wakes else "no", headers={"Retry-After": "0"})

    async with ChatServer(script) as server:
        rollout = Rollout(OneTurn, failure_policy=FailurePolicy(max_retries=0, rules=[rule]))
        with pytest.raises(AllRolloutsFailedError):
            await gather_groups(rollout, server.model(), scenarios(2), rollouts_per_group=1)

    asked = [text_of(body) for body in server.requests]
    assert (asked.count("task s0"), asked.count("task s1")) == (3, 1)


@pytest.mark.parametrize("status", [400, 401])
async def test_what_is_refused_for_good_is_asked_once(status: int) -> None:
    """It would be refused again."""
    async with ChatServer(lambda body: Reply(status=status, error="no")) as server:
        with pytest.raises(openai.APIStatusError):
            await Rollout(OneTurn)(server.model(), Scenario(id="s0"))

    assert len(server.requests) == 1


async def test_a_small_gather_without_a_connection_is_an_outage_and_says_to_what() -> None:
    """The client calls a refused connection a time-out; what it came from names the address."""
    async with ChatServer([]) as server:
        model = server.model()
    rollout = Rollout(OneTurn, failure_policy=ONCE)

    with pytest.raises(OutageError, match=r"4 rollouts in a row found no connection .* \(from .*127\.0\.0\.1"):
        await gather_groups(rollout, model, scenarios(1))


@pytest.mark.parametrize("keep", [(), ("infrastructure",)])
@pytest.mark.parametrize("is_captured", [False, True])
async def test_a_server_that_goes_down_between_two_turns_is_an_outage_too(keep: Any, is_captured: bool) -> None:
    """Episodes that lose it half way are no bad luck either, whether they are kept or not."""

    def answer(body: dict[str, Any]) -> Reply:
        return Reply("ok") if len(body["messages"]) == 1 else Reply(drop="before")

    async def captured(model: Any, scenario: Scenario) -> Any:
        return await rollout(model, scenario)

    class Playing(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            await all_have_a_reply.wait()
            return await super().step(action)

    all_have_a_reply = asyncio.Barrier(20)
    policy = FailurePolicy(max_retries=0, keep=keep)
    rollout = Rollout(Playing, failure_policy=policy)
    async with ChatServer(answer) as server:
        with pytest.raises(OutageError, match="16 rollouts in a row found no connection") as stopped:
            await gather_groups(
                capture_partial(captured, failure_policy=policy) if is_captured else rollout,
                server.model(),
                scenarios(20),
                rollouts_per_group=1,
            )

    assert (len(stopped.value.gathered.lost) >= 16) is not bool(keep)


async def test_connections_of_judges_and_tools_are_none_of_the_models() -> None:
    """The model's server is there, so there is no outage of it."""
    request = openai.APIConnectionError(request=httpx.Request("POST", "http://judge.test/v1/chat/completions"))

    def judge(episode: Episode) -> float:
        raise request

    async def asks_elsewhere(model: Any, scenario: Scenario) -> Any:
        raise request

    async with ChatServer(echo) as server:
        model = server.model()
        judged = await gather_groups(Rollout(OneTurn), model, scenarios(5), reward=ProgrammaticReward(judge))
        with pytest.raises(AllRolloutsFailedError):
            await gather_groups(capture_partial(asks_elsewhere), model, scenarios(5))

    assert judged.counts == GatherCounts(started=20, lost={"reward": 20})
    assert judged.counts.causes == {"reward: APIConnectionError: Connection error.": 20}
