"""Groups of episodes, in order, and what was lost on the way."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
from collections.abc import Sequence
from typing import Any

import art
import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import Episode, FailurePolicy
from artkit.errors import AllRolloutsFailedError, ConfigurationError, OutageError
from artkit.rewards import EnvironmentReward
from artkit.rollouts import GatherCounts, Limits, MemberFinished, Rollout, Sampling, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply, choice, episode

ONCE = FailurePolicy(max_retries=0)
OVERFLOW = Reply(status=400, error="maximum context length is 8192 tokens, request has 8195")


def scenarios(count: int) -> list[Scenario]:
    return [Scenario(id=f"s{number}") for number in range(count)]


def echo(body: dict[str, Any]) -> str:
    """Answer with the last message."""
    return str(body["messages"][-1]["content"])


class OneTurn(Environment[Scenario]):
    """Asks once, and counts what is open."""

    open = 0

    async def reset(self, scenario: Scenario) -> str:
        type(self).open += 1
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=1.0)

    async def close(self) -> None:
        type(self).open -= 1


class OwnTrajectory(art.Trajectory):
    notes: str = ""


def ids(groups: Sequence[art.TrajectoryGroup]) -> list[Any]:
    return [group.metadata["scenario_id"] for group in groups]


async def test_groups_and_members_come_in_input_order_whoever_finishes_first() -> None:
    """ART's own come in the order of completion, so member 2 of one step is not member 2 of the next."""
    finished = []

    async def slow_first(body: dict[str, Any]) -> Reply:
        return Reply(echo(body), delay_s=0.2 if body["messages"][0]["content"] == "task s0" else 0.0)

    async with ChatServer(slow_first) as server:
        gathered = await gather_groups(
            Rollout(OneTurn), server.model(), scenarios(3), rollouts_per_group=2, on_event=finished.append
        )

    assert ids(gathered.groups) == ["s0", "s1", "s2"]
    assert [[one.member for one in group.trajectories] for group in gathered.groups] == [[0, 1]] * 3  # type: ignore[attr-defined]
    assert {event.scenario_id for event in finished[-2:]} == {"s0"}


async def test_groups_are_finished_groups_of_arts_own() -> None:
    """They go to `backend.train` and `model.log` as they are."""
    async with ChatServer(echo) as server:
        gathered = await gather_groups(Rollout(OneTurn), server.model(), scenarios(2), rollouts_per_group=3)

    assert [(type(group), len(group.trajectories)) for group in gathered.groups] == [(art.TrajectoryGroup, 3)] * 2
    assert str(gathered.counts) == "6 of 6 rollouts grouped"


async def test_one_limit_holds_over_all_groups() -> None:
    """A limit for each group lets ten groups of eight send eighty requests at once."""

    def slow(body: dict[str, Any]) -> Reply:
        return Reply("ok", delay_s=0.01)

    async with ChatServer(slow) as server:
        await gather_groups(Rollout(OneTurn), server.model(), scenarios(10), rollouts_per_group=4, max_concurrent=5)

    assert (server.max_in_flight, len(server.requests)) == (5, 40)


async def test_a_gather_of_nothing_is_nothing() -> None:
    """The last batch of some loop may well be empty."""
    async with ChatServer([]) as server:
        gathered = await gather_groups(Rollout(OneTurn), server.model(), [])

    assert (gathered.groups, gathered.lost, gathered.counts) == ([], [], GatherCounts())


@pytest.mark.parametrize(
    "settings", [{"rollouts_per_group": 0}, {"max_concurrent": 0}, {"max_exceptions": -1}, {"max_concurrent": -3}]
)
async def test_a_count_that_cannot_work_is_refused_before_anything_is_played(settings: dict[str, Any]) -> None:
    """A limit of 0 would wait for ever."""
    async with ChatServer([]) as server:
        with pytest.raises(ConfigurationError):
            await gather_groups(Rollout(OneTurn), server.model(), scenarios(1), **settings)


class Failing(OneTurn):
    """Fails as its scenario's id says."""

    async def reset(self, scenario: Scenario) -> str:
        self.how = scenario.id
        if self.how == "at once":
            raise OSError("no container")
        return await super().reset(scenario)

    async def step(self, action: Action) -> StepResult:
        if self.how == "later":
            raise KeyError("door")
        return await super().step(action)


HOW = [Scenario(id="not"), Scenario(id="later"), Scenario(id="at once")]


async def test_what_may_not_be_trained_on_leaves_its_group_with_its_cause() -> None:
    """It enters no mean, no baseline and no batch, and never becomes reward 0; `exception_rate` counts it."""
    async with ChatServer(echo) as server:
        gathered = await gather_groups(Rollout(Failing), server.model(), HOW, rollouts_per_group=2)

    assert [len(group.trajectories) for group in gathered.groups] == [2, 0, 0]
    assert [[error.type for error in group.exceptions] for group in gathered.groups] == [
        [], ["KeyError"] * 2, ["OSError"] * 2,
    ]  # fmt: skip
    assert [(one.metadata["scenario_id"], one.metrics["error"]) for one in gathered.lost] == [("later", True)] * 2
    assert gathered.counts == GatherCounts(started=6, grouped=2, lost={"environment": 2}, failed={"environment": 2})
    assert str(gathered.counts) == "2 of 6 rollouts grouped, 2 lost (environment), 2 failed (environment)"


async def test_a_kind_that_the_policy_keeps_stays_in_the_group() -> None:
    """The caller's choice: a failing container may be the model's own doing."""
    rollout = Rollout(Failing, failure_policy=FailurePolicy(keep={"environment"}))
    async with ChatServer(echo) as server:
        gathered = await gather_groups(rollout, server.model(), HOW[:2], rollouts_per_group=2)

    assert [len(group.trajectories) for group in gathered.groups] == [2, 2]
    assert (gathered.lost, gathered.counts) == ([], GatherCounts(started=4, grouped=4))


async def test_an_episode_at_a_limit_stays_and_is_scored() -> None:
    """An overflow is what the model did."""
    async with ChatServer(lambda body: OVERFLOW if len(body["messages"]) > 2 else "hi") as server:

        class Chatty(OneTurn):
            async def step(self, action: Action) -> StepResult:
                return StepResult("go on", reward=1.0)

        gathered = await gather_groups(Rollout(Chatty), server.model(), scenarios(1), rollouts_per_group=2)

    assert [(one.reward, one.metrics["truncated"]) for one in gathered.groups[0].trajectories] == [(1.0, True)] * 2
    assert gathered.groups[0].exceptions == []


async def test_a_replay_repairs_a_group() -> None:
    """One container that crashed once must not cost a member: the others' baseline would be biased."""
    resets = []

    class Fragile(OneTurn):
        async def reset(self, scenario: Scenario) -> str:
            resets.append(scenario.id)
            self.breaks = len(resets) == 1
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            if self.breaks:
                raise ConnectionError("the container is gone")
            return await super().step(action)

    rollout = Rollout(Fragile, failure_policy=FailurePolicy(rollout_retries=1))
    async with ChatServer(echo) as server:
        gathered = await gather_groups(rollout, server.model(), scenarios(1))

    assert sorted(one.metrics["retries"] for one in gathered.groups[0].trajectories) == [0, 0, 0, 1]
    assert (len(resets), Fragile.open) == (5, 0)


async def test_when_every_rollout_fails_the_first_cause_and_the_counts_are_named() -> None:
    """An empty batch would crash the trainer, or train on nothing."""
    async with ChatServer(echo) as server:
        with pytest.raises(AllRolloutsFailedError) as failed:
            await gather_groups(Rollout(Failing), server.model(), [HOW[2]] * 8)

    problem = (
        r"32/32 rollouts failed \(32 environment\); the first: OSError: no container \(test_gather\.py:\d+ in \w+\)"
    )
    assert re.fullmatch(problem, failed.value.problem)
    assert isinstance(failed.value.__cause__, OSError)


async def test_overflows_before_the_first_turn_are_failures_too() -> None:
    """A prompt longer than the context leaves every group empty."""
    async with ChatServer(lambda body: OVERFLOW) as server:
        with pytest.raises(AllRolloutsFailedError, match=r"4/4 rollouts failed \(4 limit\)"):
            await gather_groups(Rollout(OneTurn), server.model(), scenarios(1))


@pytest.mark.parametrize("max_exceptions", [2, 0.25])
async def test_as_many_may_fail_as_the_caller_allows(max_exceptions: float) -> None:
    """A count, or a share of all rollouts: it scales with the batch."""
    async with ChatServer(echo) as server:
        gathered = await gather_groups(
            Rollout(Failing),
            server.model(),
            [HOW[0], HOW[0], HOW[0], HOW[1]],
            rollouts_per_group=2,
            max_exceptions=max_exceptions,
        )

    assert gathered.counts.lost == {"environment": 2}


@pytest.mark.parametrize("max_exceptions", [0, 1, 1.0, 0.2])
async def test_more_than_the_caller_allows_stops_the_gather(max_exceptions: float) -> None:
    """`1.0` is one exception, as in ART; only strictly between 0 and 1 it is a share."""
    async with ChatServer(echo) as server:
        with pytest.raises(AllRolloutsFailedError, match=f"more than max_exceptions={max_exceptions} allows"):
            await gather_groups(
                Rollout(Failing), server.model(), HOW[:2], rollouts_per_group=2, max_exceptions=max_exceptions
            )


async def test_a_refused_key_stops_at_once() -> None:
    """Going on would lose every rollout, one by one, after its retries."""
    made = []

    class Counted(OneTurn):
        def __init__(self) -> None:
            made.append(self)

    async with ChatServer(echo) as server:
        model = server.model()
        model.inference_api_key = "wrong"
        with pytest.raises(OutageError, match="AuthenticationError") as stopped:
            await gather_groups(Rollout(Counted), model, scenarios(50), max_concurrent=1)

    assert (len(made), Counted.open) == (1, 0)
    assert type(stopped.value.__cause__).__name__ == "AuthenticationError"


async def test_a_refused_key_leaves_no_other_rollout_running() -> None:
    """Siblings that run on as orphans go on spending after the run has ended."""

    class Held(OneTurn):
        async def reset(self, scenario: Scenario) -> str:
            await super().reset(scenario)
            if scenario.id != "s0":
                await asyncio.Event().wait()
            return "task"

    async with ChatServer(echo) as server:
        model = server.model()
        model.inference_api_key = "wrong"
        before = asyncio.all_tasks()
        with pytest.raises(OutageError):
            await gather_groups(Rollout(Held), model, scenarios(3))
        left = asyncio.all_tasks() - before

    assert ({task.get_name() for task in left if "gather" in repr(task)}, Held.open) == (set(), 0)


async def test_many_rollouts_in_a_row_without_a_connection_are_an_outage() -> None:
    """One by one they look like bad luck; together they are a server that is gone."""
    async with ChatServer(lambda body: Reply(drop="before")) as server:
        with pytest.raises(OutageError, match="16 rollouts in a row found no connection"):
            await gather_groups(Rollout(OneTurn, failure_policy=ONCE), server.model(), scenarios(10), max_concurrent=1)

    assert len(server.requests) == 16


@pytest.mark.parametrize("is_captured", [False, True])
async def test_while_the_model_replies_to_others_there_is_no_outage(is_captured: bool) -> None:
    """Rollouts may take an hour, and none has ended yet when the first few have found no connection."""
    others_finished = 0
    is_asked_again = asyncio.Event()

    class Long(OneTurn):
        async def reset(self, scenario: Scenario) -> str:
            type(self).max_turns = 100
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            is_asked_again.clear()
            if others_finished < 39:
                await is_asked_again.wait()
            return StepResult("go on", done=others_finished == 39)

    def on_event(event: MemberFinished) -> None:
        nonlocal others_finished
        others_finished += event.scenario_id != "s0"
        is_asked_again.set()

    async def captured(model: Any, scenario: Scenario) -> art.Trajectory:
        return await rollout(model, scenario)

    def answer(body: dict[str, Any]) -> Reply:
        return Reply("ok") if body["messages"][0]["content"] == "task s0" else Reply(drop="before")

    rollout = Rollout(Long, failure_policy=ONCE)
    async with ChatServer(answer) as server:
        gathered = await gather_groups(
            capture_partial(captured, failure_policy=ONCE) if is_captured else rollout,
            server.model(),
            scenarios(40),
            rollouts_per_group=1,
            max_concurrent=2,
            on_event=on_event,
        )

    assert gathered.counts == GatherCounts(started=40, grouped=1, failed={"infrastructure": 39})


async def test_a_rollout_that_hangs_is_ended_by_its_deadline() -> None:
    """Gathers that stand still at 9 of 12, for ever and without a word, are what people report."""

    class Hanging(OneTurn):
        async def step(self, action: Action) -> StepResult:
            if action.text == "task s3":
                await asyncio.Event().wait()
            return await super().step(action)

    async with ChatServer(echo) as server:
        rollout = Rollout(Hanging, limits=Limits(episode_timeout_s=0.5))
        gathered = await gather_groups(rollout, server.model(), scenarios(12), rollouts_per_group=1)

    assert (gathered.counts.grouped, gathered.counts.lost) == (11, {"environment": 1})
    assert gathered.groups[3].exceptions[0].message == "the episode passed its 0.5 s while waiting for the environment"


async def test_a_server_that_stays_busy_for_one_leaves_the_others_alone() -> None:
    """A rate limit is nobody else's failure."""

    def script(body: dict[str, Any]) -> Reply | str:
        busy = body["messages"][0]["content"] == "task s1"
        return Reply(status=429, headers={"Retry-After": "0"}) if busy else "ok"

    async with ChatServer(script) as server:
        gathered = await gather_groups(
            Rollout(OneTurn, failure_policy=FailurePolicy(max_retries=1)), server.model(), scenarios(3)
        )

    assert [len(group.trajectories) for group in gathered.groups] == [4, 0, 4]
    assert {error.type for error in gathered.groups[1].exceptions} == {"RateLimitError"}
    assert (gathered.counts.failed, len(server.requests)) == ({"infrastructure": 4}, 16)


async def test_siblings_sample_apart_and_a_repetition_samples_alike() -> None:
    """Members with one seed would say the same; a validation that is repeated should differ by the model alone."""
    rollout = Rollout(OneTurn, sampling=Sampling(seed=1))
    async with ChatServer(echo) as server:
        for _ in range(2):
            await gather_groups(rollout, server.model(), scenarios(2))

    seeds = [request["seed"] for request in server.requests]
    assert len(set(seeds)) == 8
    assert sorted(seeds[:8]) == sorted(seeds[8:])


async def test_each_rollout_is_told_of_as_it_ends() -> None:
    """Progress is shown while it happens."""
    told: list[MemberFinished] = []
    async with ChatServer(echo) as server:
        await gather_groups(Rollout(Failing), server.model(), HOW, rollouts_per_group=1, on_event=told.append)

    assert {(event.scenario_id, event.member, event.episode is not None, str(event.failure)) for event in told} == {
        ("not", 0, True, "None"),
        ("later", 0, True, "KeyError: 'door'"),
        ("at once", 0, False, "OSError: no container"),
    }
    assert all(event.seconds > 0 for event in told)


async def test_a_plain_art_rollout_is_gathered_as_it_is() -> None:
    """`async (model, scenario) -> art.Trajectory` is what every ART script has."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        if scenario.id == "s1":
            raise KeyError("door")
        return art.Trajectory(messages_and_choices=[{"role": "user", "content": "a"}, choice("b")], reward=0.5)

    gathered = await gather_groups(rollout, ChatServer([]).model, scenarios(2), rollouts_per_group=2)  # type: ignore[arg-type]

    [first, second] = gathered.groups[0].trajectories
    assert isinstance(first, Episode)
    assert isinstance(second, Episode)
    assert (first.scenario, first.member, second.member, first.reward) == (Scenario(id="s0"), 0, 1, 0.5)
    assert (first.environment_reward, first.metrics["turns"]) == (0.5, 1)
    assert {"turns", "error", "truncated", "tool_errors", "retries", "duration_s"} <= set(first.metrics)
    assert gathered.counts == GatherCounts(started=4, grouped=2, failed={"environment": 2})


async def test_a_users_own_trajectory_stays_what_it_is() -> None:
    """Its fields are the user's."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        return OwnTrajectory(messages_and_choices=[{"role": "user", "content": "a"}, choice("b")], notes="mine")

    gathered = await gather_groups(rollout, None, scenarios(1), rollouts_per_group=1)  # type: ignore[arg-type]

    [own] = gathered.groups[0].trajectories
    assert (type(own), own.notes, own.metadata) == (OwnTrajectory, "mine", {"scenario_id": "s0"})  # type: ignore[attr-defined]


@pytest.mark.parametrize("returned", [None, (episode(), 1.0), [episode()]])
async def test_a_rollout_that_returns_no_trajectory_has_failed(returned: Any) -> None:
    """A tuple that is dropped without a word is a batch lost."""

    async def rollout(model: Any, scenario: Scenario) -> Any:
        return returned

    with pytest.raises(AllRolloutsFailedError, match="the rollout returned"):
        await gather_groups(rollout, None, scenarios(1))  # type: ignore[arg-type]


async def test_a_rollout_that_raises_cancelled_error_has_failed() -> None:
    """Passed on, it would end the whole gather as if the caller had asked for it."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        if scenario.id == "s1":
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner
        return art.Trajectory(messages_and_choices=[choice("b")])

    gathered = await gather_groups(rollout, None, scenarios(2), rollouts_per_group=1)  # type: ignore[arg-type]

    assert gathered.counts == GatherCounts(started=2, grouped=1, failed={"environment": 1})


async def test_what_is_set_for_one_rollout_reaches_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings travel as values: of concurrent writers to the process's environment the last one wins."""
    before = dict(os.environ)

    class Own(OneTurn):
        async def reset(self, scenario: Scenario) -> str:
            self.setting = scenario.id
            await asyncio.sleep(0)
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, outcome=self.setting)

    async with ChatServer(echo) as server:
        gathered = await gather_groups(Rollout(Own), server.model(), scenarios(4), rollouts_per_group=2)

    outcomes = [one.outcome for group in gathered.groups for one in group.trajectories]  # type: ignore[attr-defined]
    assert outcomes == [f"s{number}" for number in range(4) for _ in range(2)]
    assert dict(os.environ) == before


def test_gathers_work_in_one_event_loop_after_another() -> None:
    """A limit that is bound to a closed loop breaks the second `asyncio.run` of a notebook."""
    with ChatServer(echo) as server:
        model = server.model()
        counts = [
            asyncio.run(gather_groups(Rollout(OneTurn), model, scenarios(2), max_concurrent=1)).counts.grouped
            for _ in range(2)
        ]

    assert counts == [8, 8]


async def ask(model: Any, scenario: Scenario) -> art.Trajectory:
    """A rollout as ART's own scripts have it."""
    start: list[Any] = [{"role": "user", "content": f"task {scenario.id}"}]
    client = model.openai_client().with_options(max_retries=0)
    completion = await client.chat.completions.create(model=model.get_inference_name(), messages=start)
    return art.Trajectory(messages_and_choices=[*start, completion.choices[0]], reward=1.0)


async def test_a_refused_key_stops_a_plain_rollout_at_once_too() -> None:
    """It is the same refusal, and was paid for eight times over."""
    asked = []

    async def counted(model: Any, scenario: Scenario) -> art.Trajectory:
        asked.append(scenario.id)
        return await ask(model, scenario)

    async with ChatServer(echo) as server:
        model = server.model()
        model.inference_api_key = "wrong"
        with pytest.raises(OutageError, match="AuthenticationError"):
            await gather_groups(counted, model, scenarios(2), max_concurrent=1)
        await model.openai_client().close()

    assert asked == ["s0"]


async def test_a_plain_rollout_that_fails_after_a_turn_leaves_a_partial_episode() -> None:
    """What was paid for is kept, and told apart from what never began."""

    async def breaks(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = await ask(model, scenario)
        if scenario.id == "s1":
            raise KeyError("door")
        return trajectory

    async with ChatServer(echo) as server:
        model = server.model()
        gathered = await gather_groups(breaks, model, scenarios(2), rollouts_per_group=1)
        await model.openai_client().close()

    assert [(str(one.failure), one.metrics["turns"]) for one in gathered.lost] == [("KeyError: 'door'", 1)]  # type: ignore[attr-defined]
    assert gathered.counts == GatherCounts(started=2, grouped=1, lost={"environment": 1})


async def test_a_rollout_that_asks_nobody_needs_no_endpoint() -> None:
    """A model may be no more than a name for what a rollout does on its own."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        return art.Trajectory(messages_and_choices=[choice(model.name)])

    model = art.Model(name="nobody", project="p")
    gathered = await gather_groups(rollout, model, scenarios(1), rollouts_per_group=1)

    assert gathered.counts.grouped == 1


async def test_an_outage_that_a_framework_wrapped_is_one() -> None:
    """Frameworks wrap everything in errors of their own."""

    async def wrapping(model: Any, scenario: Scenario) -> art.Trajectory:
        try:
            return await ask(model, scenario)
        except Exception as error:
            raise RuntimeError("agent failed") from error

    async with ChatServer(lambda body: Reply(drop="before")) as server:
        model = server.model()
        with pytest.raises(OutageError, match=r"16 rollouts in a row found no connection .*agent failed"):
            await gather_groups(wrapping, model, scenarios(10), max_concurrent=1)
        await model.openai_client().close()


async def test_what_was_finished_when_a_gather_is_stopped_comes_with_the_error() -> None:
    """It was paid for, and holds the failures that stopped it."""
    async with ChatServer(echo) as server:
        with pytest.raises(AllRolloutsFailedError) as stopped:
            await gather_groups(
                Rollout(Failing),
                server.model(),
                [HOW[0], HOW[1], HOW[2], HOW[0]],
                rollouts_per_group=1,
                reward=EnvironmentReward(),
                max_exceptions=1,
                max_concurrent=1,
            )

    gathered = stopped.value.gathered
    assert ids(gathered.groups) == ["not", "later", "at once", "not"]
    assert [[one.reward for one in group.trajectories] for group in gathered.groups] == [[1.0], [], [], []]
    assert [str(one.failure) for one in gathered.lost] == ["KeyError: 'door'"]
    assert gathered.groups[2].exceptions[0].type == "OSError"
    assert gathered.counts == GatherCounts(started=3, grouped=1, lost={"environment": 1}, failed={"environment": 1})
    assert pickle.loads(pickle.dumps(stopped.value)).gathered is None


async def test_members_of_a_group_that_was_not_complete_come_with_the_error() -> None:
    """Most episodes of a stopped gather are in such groups."""
    refused = Reply(status=401, error="no")

    async with ChatServer(["hi", refused]) as server:
        with pytest.raises(OutageError) as stopped:
            await gather_groups(Rollout(OneTurn), server.model(), scenarios(2), max_concurrent=1)

    assert [len(group.trajectories) for group in stopped.value.gathered.groups] == [1, 0]
    assert str(stopped.value.gathered.counts) == "1 of 2 rollouts grouped, 1 failed (fatal)"
