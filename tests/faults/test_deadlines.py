"""Each deadline has one owner, and what passes it keeps the turns that were played."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import art
import pytest

from artkit.environments import Action, Environment, StepResult, ToolEnvironment, tool
from artkit.episodes import Episode, FailurePolicy, StopReason
from artkit.errors import AllRolloutsFailedError, ConfigurationError
from artkit.rollouts import GatherCounts, Limits, MemberFinished, Rollout, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply

NEVER = 3600.0


def scenarios(count: int) -> list[Scenario]:
    return [Scenario(id=f"s{number}") for number in range(count)]


class TwoTurns(Environment[Scenario]):
    """Asks twice; the second answer to "s3" never comes."""

    async def reset(self, scenario: Scenario) -> str:
        self.hangs = scenario.id == "s3"
        self.turns = 0
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        self.turns += 1
        if self.turns == 2 and self.hangs:
            await asyncio.Event().wait()
        return StepResult("go on", done=self.turns == 2, reward=1.0)


async def test_one_of_twelve_that_waits_for_ever_ends_with_its_turns_and_is_named() -> None:
    """Gathers that stand still at 9 of 12, for ever and without a word, are what people report."""
    told: list[MemberFinished] = []
    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(TwoTurns, limits=Limits(episode_timeout_s=1.0))
        gathered = await gather_groups(
            rollout, server.model(), scenarios(12), rollouts_per_group=1, on_event=told.append
        )

    [slow] = gathered.lost
    assert isinstance(slow, Episode)
    assert (slow.stop_reason, slow.metrics["turns"], slow.metrics["error"]) == (StopReason.TIMEOUT, 2, True)
    assert slow.failure is not None
    assert (slow.failure.type, slow.failure.message) == (
        "TimeoutError", "the episode passed its 1.0 s while waiting for the environment",
    )  # fmt: skip
    assert gathered.counts == GatherCounts(started=12, grouped=11, lost={"environment": 1})
    assert [event.scenario_id for event in told if event.failure] == ["s3"]


@pytest.mark.parametrize(("who", "kind", "turns"), [("model", "infrastructure", 1), ("environment", "environment", 2)])
async def test_a_turn_that_takes_too_long_ends_the_episode(who: str, kind: str, turns: int) -> None:
    """Whoever it waited for is to blame; the turns before are whole, and the reply that came is kept."""

    def script(body: dict[str, Any]) -> Reply:
        return Reply("hi", delay_s=NEVER if who == "model" and len(body["messages"]) > 1 else 0.0)

    async with ChatServer(script) as server:
        rollout = Rollout(TwoTurns, limits=Limits(turn_timeout_s=0.5))
        episode = await rollout(server.model(), Scenario(id="s3"))

    assert episode.failure is not None
    assert (episode.failure.kind, episode.stop_reason, episode.metrics["turns"]) == (kind, "timeout", turns)
    assert episode.failure.message == f"turn 1 took longer than 0.5 s while waiting for the {who}"


@pytest.mark.parametrize("limit", ["turn_timeout_s", "max_concurrent_steps"])
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    """No episode could be played."""
    with pytest.raises(ConfigurationError, match=f"{limit}=0 is not positive"):
        Limits(**{limit: 0})


async def test_retries_and_their_waits_count_towards_the_turn() -> None:
    """A server that stays busy must not keep a turn alive."""
    busy = Reply(status=429, headers={"Retry-After": "60"})
    async with ChatServer(lambda body: busy if len(body["messages"]) > 1 else "hi") as server:
        rollout = Rollout(TwoTurns, limits=Limits(turn_timeout_s=0.5))
        episode = await rollout(server.model(), Scenario(id="s0"))

    assert (episode.failure and episode.failure.kind, len(server.requests)) == ("infrastructure", 2)


async def test_a_deadline_that_ends_retries_says_what_they_were_for() -> None:
    """That time was up is true, and no help to whoever is to mend it."""
    busy = Reply(status=429, error="tier 1 is used up", headers={"Retry-After": "60"})
    async with ChatServer(lambda body: busy if len(body["messages"]) > 1 else "hi") as server:
        rollout = Rollout(TwoTurns, limits=Limits(episode_timeout_s=0.3))
        episode = await rollout(server.model(), Scenario(id="s0"))

    assert episode.stop_reason is StopReason.TIMEOUT
    assert episode.failure is not None
    assert "tier 1 is used up" in episode.failure.cause


async def test_a_step_that_swallows_its_cancellation_and_returns_late_is_discarded() -> None:
    """Its time was over; a result that counts sometimes and sometimes not depends on the machine."""

    class Late(TwoTurns):
        async def step(self, action: Action) -> StepResult:
            if not self.hangs:
                return StepResult(done=True)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return StepResult(done=True, reward=1.0)
            return StepResult()

    async with ChatServer(lambda body: "hi") as server:
        limits = Limits(tool_timeout_s=0.05)
        gathered = await gather_groups(Rollout(Late, limits=limits), server.model(), scenarios(4))

    assert gathered.counts == GatherCounts(started=16, grouped=12, lost={"environment": 4}, late_results=4)
    assert {str(episode.failure) for episode in gathered.lost} == {"TimeoutError: step() took longer than 0.05 s"}  # type: ignore[attr-defined]


async def test_an_episode_whose_environment_swallows_the_deadline_asks_the_model_nothing_more() -> None:
    """A deadline fires once: passed over, it would leave the episode without one."""

    class Deaf(TwoTurns):
        max_turns = 1000

        async def step(self, action: Action) -> StepResult:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return StepResult("go on")

    async with ChatServer(lambda body: "hi") as server:
        episode = await Rollout(Deaf, limits=Limits(episode_timeout_s=0.2))(server.model(), Scenario(id="s0"))

    assert (episode.stop_reason, episode.metrics["turns"], len(server.requests)) == (StopReason.TIMEOUT, 1, 1)


async def test_a_tool_that_answers_late_is_answered_as_one_that_took_too_long() -> None:
    """The model is told the same, whether the tool could be ended or not; the episode goes on."""

    class Desk(ToolEnvironment[Scenario]):
        async def reset(self, scenario: Scenario) -> str:
            return "look"

        @tool
        async def look(self) -> str:
            """Look."""
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "a lamp"
            return ""

    async with ChatServer([Reply(tool_calls=[("look", {})]), "done"]) as server:
        gathered = await gather_groups(
            Rollout(Desk, limits=Limits(tool_timeout_s=0.05)), server.model(), scenarios(1), rollouts_per_group=1
        )

    [episode] = gathered.groups[0].trajectories
    assert [message["content"] for message in episode.messages() if message["role"] == "tool"] == [
        "look took longer than 0.05 s"
    ]
    assert gathered.counts == GatherCounts(started=1, grouped=1)


async def test_at_the_deadline_of_a_gather_what_still_plays_ends_with_its_turns() -> None:
    """A step goes on with what there is; nobody's cancellation is theirs."""
    async with ChatServer(lambda body: "hi") as server:
        gathered = await gather_groups(
            Rollout(TwoTurns), server.model(), scenarios(4), rollouts_per_group=2, timeout_s=0.5
        )

    assert gathered.counts == GatherCounts(started=8, grouped=6, lost={"environment": 2})
    assert {(one.stop_reason, one.metrics["turns"], str(one.failure)) for one in gathered.lost} == {  # type: ignore[attr-defined]
        (
            "timeout",
            2,
            "TimeoutError: the gather passed its 0.5 s (timeout_s, or step_timeout_s of a Trainer) while the episode waited for the environment",
        )
    }


async def test_an_episode_that_waits_for_the_model_at_the_deadline_of_a_gather_blames_the_server() -> None:
    """What is not the environment's fault must not be counted as such."""
    async with ChatServer(lambda body: Reply("hi", delay_s=NEVER if len(body["messages"]) > 1 else 0.0)) as server:
        with pytest.raises(AllRolloutsFailedError, match=r"2/2 rollouts failed \(2 infrastructure\)") as failed:
            await gather_groups(Rollout(TwoTurns), server.model(), scenarios(1), rollouts_per_group=2, timeout_s=0.5)

    assert [one.metrics["turns"] for one in failed.value.gathered.lost] == [1, 1]


async def test_whose_turn_has_not_come_at_the_deadline_of_a_gather_has_failed() -> None:
    """Each member that a group lacks is accounted for."""
    begun = []

    class Hanging(TwoTurns):
        async def reset(self, scenario: Scenario) -> str:
            begun.append(scenario.id)
            if scenario.id == "s1":
                await asyncio.Event().wait()
            return await super().reset(scenario)

    policy = FailurePolicy(rollout_retries=5)
    async with ChatServer(lambda body: "hi") as server:
        gathered = await gather_groups(
            Rollout(Hanging, failure_policy=policy),
            server.model(),
            scenarios(3),
            rollouts_per_group=2,
            max_concurrent=1,
            timeout_s=0.5,
        )

    assert begun == ["s0", "s0", "s1"]
    assert [[record.message for record in group.exceptions] for group in gathered.groups] == [
        [],
        [
            "the gather passed its 0.5 s (timeout_s, or step_timeout_s of a Trainer) while the episode waited for the environment",
            "the gather passed its 0.5 s (timeout_s, or step_timeout_s of a Trainer) before it was this rollout's turn",
        ],
        ["the gather passed its 0.5 s (timeout_s, or step_timeout_s of a Trainer) before it was this rollout's turn"]
        * 2,
    ]
    assert gathered.counts == GatherCounts(started=6, grouped=2, failed={"environment": 1, "infrastructure": 3})


async def test_a_plain_rollout_keeps_its_turns_at_the_deadline_of_a_gather() -> None:
    """It has no deadline of its own."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        start: list[Any] = [{"role": "user", "content": "hi"}]
        completion = await model.openai_client().chat.completions.create(model="scripted", messages=start)
        if scenario.id == "s0":
            await asyncio.Event().wait()
        return art.Trajectory(messages_and_choices=[*start, completion.choices[0]])

    async with ChatServer(lambda body: "hi") as server:
        model = server.model()
        gathered = await gather_groups(
            capture_partial(rollout), model, scenarios(2), rollouts_per_group=1, timeout_s=1.0
        )
        await model.openai_client().close()

    [slow] = gathered.lost
    assert (slow.stop_reason, slow.metrics["turns"]) == (StopReason.TIMEOUT, 1)  # type: ignore[attr-defined]
    assert gathered.counts == GatherCounts(started=2, grouped=1, lost={"environment": 1})
