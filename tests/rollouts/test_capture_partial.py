"""Rollouts that were written for plain ART, with their turns kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import art
import httpx
import openai
import pytest
from openai.types.chat.chat_completion import Choice

from artkit.episodes import Episode, FailurePolicy, StopReason
from artkit.errors import ConfigurationError, EnvironmentContractError, OutageError
from artkit.rewards import EnvironmentReward, ProgrammaticReward
from artkit.rollouts import Rollout, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply, choice

SCENARIO = Scenario(id="s")
OVERFLOW = Reply(status=400, error="maximum context length is 8192 tokens, request has 8195")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    """Answers each conversation with the number of its turn, and an overflow to whoever asks for it."""

    def script(body: dict[str, Any]) -> Reply | str:
        text = body["messages"][-1]["content"]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return {"overflow": OVERFLOW, "busy": Reply(status=503), "deny": Reply(status=403)}.get(text, f"reply {turn}")

    async with ChatServer(script) as running:
        yield running


@pytest.fixture
async def model(server: ChatServer) -> AsyncIterator[Any]:
    model = server.model()
    yield model
    await model.openai_client().close()


async def ask(model: Any, messages: list[Any], text: str | None = None, **options: Any) -> Choice:
    """Ask as a plain ART rollout does."""
    if text is not None:
        messages.append({"role": "user", "content": text})
    client = model.openai_client().with_options(max_retries=0)
    completion = await client.chat.completions.create(model=model.get_inference_name(), messages=messages, **options)
    return completion.choices[0]


async def whole(model: Any, scenario: Scenario) -> art.Trajectory:
    trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": f"task {scenario.id}"}])
    for text in ("and?", "so?"):
        trajectory.messages_and_choices.append(await ask(model, trajectory.messages()))
        trajectory.messages_and_choices.append({"role": "user", "content": text})
    trajectory.reward = 0.5
    return trajectory


def failing(error: BaseException | str) -> Any:
    """Two turns, then an error of the function's own, or one of the server's to a text that asks for it."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = await whole(model, scenario)
        if isinstance(error, BaseException):
            raise error
        await ask(model, trajectory.messages(), error)
        return trajectory

    return rollout


TURNS = [{"role": "user", "content": "task s"}, "reply 0", {"role": "user", "content": "and?"}, "reply 1"]


def turns(episode: art.Trajectory) -> list[Any]:
    """The messages, and of the server's choices their text."""
    return [one.message.content if isinstance(one, Choice) else one for one in episode.messages_and_choices]


async def test_a_rollout_that_ends_well_becomes_an_episode(model: Any) -> None:
    """Unchanged code, and everything that needs an episode works on it."""
    episode = await capture_partial(whole)(model, SCENARIO, 2)

    assert isinstance(episode, Episode)
    assert turns(episode)[:4] == TURNS
    assert (episode.scenario, episode.member, episode.stop_reason) == (SCENARIO, 2, StopReason.DONE)
    assert (episode.reward, episode.environment_reward) == (0.5, 0.5)
    assert episode.metadata == {"scenario_id": "s", "stop_reason": "done", "failure_kind": None}
    assert (episode.metrics["turns"], episode.metrics["error"], episode.metrics["completion_tokens"]) == (2, False, 14)


async def test_an_error_after_a_turn_leaves_a_partial_episode_of_the_servers_own_choices(model: Any) -> None:
    """What was paid for is kept, ready to be trained on should the policy say so."""
    episode = await capture_partial(failing(KeyError("door")))(model, SCENARIO)

    assert turns(episode) == TURNS
    assert (episode.failure.kind, str(episode.failure)) == ("environment", "KeyError: 'door'")  # type: ignore[attr-defined]
    assert (episode.metrics["turns"], episode.metrics["error"]) == (2, True)
    assert (episode.metadata["stop_reason"], episode.metadata["failure_kind"]) == ("error", "environment")


async def test_an_error_before_the_first_turn_raises(model: Any) -> None:
    """There is no episode."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        raise KeyError("door")

    with pytest.raises(KeyError, match="door"):
        await capture_partial(rollout)(model, SCENARIO)


@pytest.mark.parametrize(
    ("said", "kind", "stop"),
    [("busy", "infrastructure", "error"), ("overflow", "limit", "context_overflow")],
)
async def test_an_error_of_the_server_is_told_from_one_of_the_function(
    model: Any, said: str, kind: str, stop: str
) -> None:
    """The same class of exception may come from a tool's own service."""
    episode = await capture_partial(failing(said))(model, SCENARIO)

    assert turns(episode) == TURNS
    assert (episode.metadata["failure_kind"], episode.metadata["stop_reason"]) == (kind, stop)


async def test_an_error_like_the_servers_from_somewhere_else_is_the_functions(model: Any) -> None:
    """A tool may well ask another model, and that one may refuse its key."""
    request = httpx.Request("POST", "http://127.0.0.1/elsewhere")
    elsewhere = openai.AuthenticationError("no", response=httpx.Response(401, request=request), body=None)

    episode = await capture_partial(failing(elsewhere))(model, SCENARIO)

    assert episode.metadata["failure_kind"] == "environment"


async def test_a_refusal_that_the_function_wrapped_still_stops_the_run(model: Any) -> None:
    """Frameworks wrap everything in errors of their own."""

    async def wrapping(model: Any, scenario: Scenario) -> art.Trajectory:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(failing("deny")(model, scenario))
        raise AssertionError

    with pytest.raises(OutageError, match="a failure that no other can escape"):
        await gather_groups(capture_partial(wrapping), model, [SCENARIO])


async def test_a_deadline_of_the_functions_own_around_a_request_is_the_servers_doing(server: ChatServer) -> None:
    """It was waiting for the model when time ran out."""

    async def impatient(model: Any, scenario: Scenario) -> art.Trajectory:
        messages: list[Any] = []
        reply = await ask(model, messages, "hi")
        messages.append({"role": "assistant", "content": reply.message.content})
        await asyncio.wait_for(ask(model, messages, "slow"), 0.2)
        raise AssertionError

    async with ChatServer({"hi": "ho", "slow": Reply("late", delay_s=60)}) as slow:
        model = slow.model()
        episode = await capture_partial(impatient)(model, SCENARIO)
        await model.openai_client().close()

    assert (episode.metadata["failure_kind"], episode.metadata["stop_reason"]) == ("infrastructure", "timeout")


async def test_tools_and_calls_are_part_of_a_partial_episode(server: ChatServer) -> None:
    """Without its tools and their answers a conversation cannot be rendered as it was sampled."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        messages: list[Any] = []
        reply = await ask(model, messages, "look", tools=[TOOL])
        messages.append(reply.message)  # the client's own object, as many rollouts do
        messages.append({"role": "tool", "tool_call_id": reply.message.tool_calls[0].id, "content": "a door"})  # type: ignore[index]
        await ask(model, messages, tools=[TOOL])
        raise KeyError("door")

    async with ChatServer([Reply(tool_calls=[("look", {"at": "door"})]), "a door!"]) as scripted:
        model = scripted.model()
        episode = await capture_partial(rollout)(model, SCENARIO)
        await model.openai_client().close()

    assert episode.tools == [TOOL]
    assert [type(one) for one in episode.messages_and_choices] == [dict, Choice, dict, Choice]
    assert episode.messages()[1]["tool_calls"][0]["id"] == episode.messages_and_choices[2]["tool_call_id"]  # type: ignore[typeddict-item, index]


async def test_of_several_conversations_the_one_with_the_most_turns_is_kept(model: Any) -> None:
    """A question on the side, for a summary or a second opinion, is not what the rollout would have returned."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = await whole(model, scenario)
        await asyncio.gather(*(ask(model, [], f"summary {n} of {len(trajectory.messages())}") for n in range(3)))
        raise KeyError("door")

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert turns(episode) == TURNS


async def test_of_several_replies_the_one_that_was_gone_on_with_is_kept(model: Any) -> None:
    """Best-of-n asks the same thing again; the conversation holds what it went on with."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        start = [{"role": "user", "content": "pick"}]
        picked, _ = [await ask(model, start) for _ in range(2)]
        await ask(model, [*start, {"role": "assistant", "content": picked.message.content}], "and?")
        raise KeyError("door")

    async with ChatServer(["first", "second", "third"]) as scripted:
        model = scripted.model()
        episode = await capture_partial(rollout)(model, SCENARIO)
        await model.openai_client().close()

    assert turns(episode) == [
        {"role": "user", "content": "pick"},
        "first",
        {"role": "user", "content": "and?"},
        "third",
    ]


async def test_a_function_that_writes_its_own_episode_keeps_what_it_wrote(model: Any) -> None:
    """For exact control."""

    async def rollout(model: Any, scenario: Scenario, episode: Episode) -> None:
        episode.messages_and_choices.append({"role": "user", "content": "hi"})
        episode.messages_and_choices.append(await ask(model, episode.messages()))
        episode.metrics["mine"] = 1
        episode.reward = 0.7
        raise KeyError("door")

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert turns(episode) == [{"role": "user", "content": "hi"}, "reply 0"]
    assert (episode.metrics["mine"], episode.metrics["turns"], episode.metrics["error"]) == (1, 1, True)
    assert (episode.reward, episode.environment_reward) == (0.7, 0.7)  # type: ignore[attr-defined]


async def test_such_a_function_need_not_return_its_episode(model: Any) -> None:
    """The episode is the argument; its reward is the function's own."""

    async def rollout(model: Any, scenario: Scenario, episode: Episode) -> None:
        episode.messages_and_choices = [{"role": "user", "content": "hi"}, choice("ho")]
        episode.reward = 0.75

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert (episode.reward, episode.environment_reward, episode.metadata["stop_reason"]) == (0.75, 0.75, "done")  # type: ignore[attr-defined]


async def test_a_function_without_a_trajectory_is_told_so(model: Any) -> None:
    """To return nothing is the commonest slip."""

    async def rollout(model: Any, scenario: Scenario) -> None:
        """Forget to return."""

    with pytest.raises(EnvironmentContractError, match="the rollout returned None"):
        await capture_partial(rollout)(model, SCENARIO)


@pytest.mark.parametrize("fn", [lambda: None, lambda a: None, lambda a, b, c, d: None, lambda *a: None])
def test_a_function_of_another_shape_is_refused(fn: Any) -> None:
    """Found out now, not in every rollout of the first batch."""
    with pytest.raises(ConfigurationError, match=r"give `async \(model, scenario\)`"):
        capture_partial(fn)


async def test_an_argument_with_a_default_is_none_of_ours(model: Any) -> None:
    """Existing rollouts have options of their own."""

    async def rollout(model: Any, scenario: Scenario, verbose: bool = False) -> art.Trajectory:
        return art.Trajectory(messages_and_choices=[choice(str(verbose))])

    assert turns(await capture_partial(rollout)(model, SCENARIO)) == ["False"]


async def test_captured_rollouts_side_by_side_record_their_own(model: Any) -> None:
    """They share one model and one client."""
    scenarios = [Scenario(id=f"{number}") for number in range(10)]
    policy = FailurePolicy(keep={"environment"})

    gathered = await gather_groups(
        capture_partial(failing(KeyError("door")), failure_policy=policy), model, scenarios, rollouts_per_group=3
    )

    first = [turns(one)[0]["content"] for group in gathered.groups for one in group.trajectories]
    assert first == [f"task {number}" for number in range(10) for _ in range(3)]
    assert {one.metrics["turns"] for group in gathered.groups for one in group.trajectories} == {2}


async def test_the_model_itself_is_left_as_it_is(model: Any) -> None:
    """Whoever else uses it must not be recorded."""
    client = model.openai_client()

    await capture_partial(whole)(model, SCENARIO)

    assert model.openai_client() is client


async def test_a_captured_rollout_is_played_again_as_the_policy_says(model: Any) -> None:
    """The same policy, whoever wrote the rollout."""
    calls = []

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        calls.append(scenario.id)
        return await (whole if len(calls) == 2 else failing(ConnectionError("gone")))(model, scenario)

    episode = await capture_partial(rollout, failure_policy=FailurePolicy(rollout_retries=1))(model, SCENARIO)

    assert (episode.metrics["retries"], episode.metrics["error"], len(calls)) == (1, False, 2)


async def test_what_a_rollout_says_of_itself_stands(model: Any) -> None:
    """It knows better whether it was cut short."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        return art.Trajectory(messages_and_choices=[choice("b")], metrics={"truncated": True, "turns": 7, "retries": 2})

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert (episode.metrics["truncated"], episode.metrics["turns"], episode.metrics["retries"]) == (True, 7, 2)


async def test_a_captured_rollout_that_raises_cancelled_error_has_failed(model: Any) -> None:
    """Nobody cancelled it."""
    episode = await capture_partial(failing(asyncio.CancelledError()))(model, SCENARIO)

    assert episode.metadata["failure_kind"] == "environment"


def test_a_rollout_of_ours_can_be_wrapped_too() -> None:
    """It is a function of model and scenario like any other."""
    from artkit.environments import Environment

    assert capture_partial(Rollout(Environment)).takes_episode is False


@pytest.mark.art_captures
async def test_turns_that_art_captured_are_counted(model: Any) -> None:
    """Under ART 0.5.23 `with art.Trajectory()` records by itself."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        with art.Trajectory() as trajectory:  # type: ignore[attr-defined]
            await ask(model, [], "hi")
        return trajectory

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert (episode.metrics["turns"], episode.messages()[-1]["content"]) == (1, "reply 0")


@pytest.mark.art_captures
async def test_an_error_while_art_captures_leaves_a_partial_episode(model: Any) -> None:
    """Its own capture is lost with the function's frame, or holds already what was recorded."""

    async def two(model: Any, scenario: Scenario) -> art.Trajectory:
        with art.Trajectory():  # type: ignore[attr-defined]
            await ask(model, [], "hi")
            raise KeyError("door")

    async def three(model: Any, scenario: Scenario, episode: Episode) -> None:
        with episode:  # type: ignore[attr-defined]
            await ask(model, [], "hi")
            raise KeyError("door")

    for rollout in (two, three):
        episode = await capture_partial(rollout)(model, SCENARIO)
        assert (episode.metrics["turns"], episode.messages()[-1]["content"]) == (1, "reply 0")
        assert episode.metadata["failure_kind"] == "environment"


def own_client(model: Any) -> openai.AsyncOpenAI:
    """A client as an agent's framework makes it."""
    return openai.AsyncOpenAI(base_url=model.inference_base_url, api_key=model.inference_api_key, max_retries=0)


async def agent(model: Any, scenario: Scenario, then: BaseException | str) -> None:
    """Two turns by a client of its own, and an error of its own or of the server's; ART sees its requests."""
    async with own_client(model) as client:
        messages: list[Any] = [{"role": "user", "content": f"task {scenario.id}"}]
        for text in ("and?", then):
            completion = await client.chat.completions.create(model="scripted", messages=messages)
            messages.append({"role": "assistant", "content": completion.choices[0].message.content})
            if isinstance(text, BaseException):
                raise text
            messages.append({"role": "user", "content": text})
        await client.chat.completions.create(model="scripted", messages=messages)


# 0.5.18 has `capture_auto_trajectory`, 0.5.23 `trajectory`: a coroutine in, a trajectory out.
captured_by_art: Any = getattr(art, "capture_auto_trajectory", None) or art.trajectory  # type: ignore[attr-defined]


async def test_what_art_captures_of_an_agent_becomes_an_episode(model: Any) -> None:
    """The agent is unchanged, and has a client of its own."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = await captured_by_art(agent(model, scenario, "so?"))
        trajectory.reward = 0.5
        return trajectory

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert [message["content"] for message in episode.messages()] == [
        "task s", "reply 0", "and?", "reply 1", "so?", "reply 2",
    ]  # fmt: skip
    assert (episode.metrics["turns"], episode.reward, episode.metadata["stop_reason"]) == (3, 0.5, "done")


@pytest.mark.parametrize(
    ("then", "kind", "stop"),
    [
        (KeyError("door"), "environment", "error"),
        ("busy", "infrastructure", "error"),
        ("overflow", "limit", "context_overflow"),
    ],
)
async def test_what_art_captured_until_an_error_stays(model: Any, then: Any, kind: str, stop: str) -> None:
    """The rollout gets no trajectory from ART then; it is in the call that the error ended."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        return await captured_by_art(agent(model, scenario, then))

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert [message["content"] for message in episode.messages()] == ["task s", "reply 0", "and?", "reply 1"]
    assert (episode.metrics["turns"], episode.metrics["error"]) == (2, kind != "limit")
    assert (episode.metadata["failure_kind"], episode.metadata["stop_reason"]) == (kind, stop)
    assert isinstance(episode, Episode)
    assert episode.scenario is SCENARIO


@pytest.mark.art_captures
async def test_so_does_what_was_captured_in_a_with_block(model: Any) -> None:
    """ART 0.5.23's other way to say it."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        with art.Trajectory() as trajectory:  # type: ignore[attr-defined]
            trajectory.metrics["mine"] = 1
            await agent(model, scenario, KeyError("door"))
        return trajectory

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert [message["content"] for message in episode.messages()] == ["task s", "reply 0", "and?", "reply 1"]
    assert (episode.metrics["turns"], episode.metrics["mine"]) == (2, 1)


async def test_so_does_what_was_written_by_hand_with_another_client(model: Any) -> None:
    """Also where the error went through a task group; what was there before the rollout is not its own."""
    example = art.Trajectory(messages_and_choices=[choice(str(number)) for number in range(9)])

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        shown = example
        trajectory = art.Trajectory(messages_and_choices=shown.messages()[:0], reward=0.25)
        async with own_client(model) as client, asyncio.TaskGroup() as tasks:

            async def turns() -> None:
                trajectory.messages_and_choices.append({"role": "user", "content": "hi"})
                completion = await client.chat.completions.create(model="scripted", messages=trajectory.messages())
                trajectory.messages_and_choices.append(completion.choices[0])
                raise KeyError("door")

            tasks.create_task(turns())
        return trajectory

    episode = await capture_partial(rollout)(model, SCENARIO)

    assert turns(episode) == [{"role": "user", "content": "hi"}, "reply 0"]
    assert (episode.reward, episode.metadata["scenario_id"]) == (0.25, "s")


async def test_a_refusal_to_another_client_stops_the_run_too(model: Any) -> None:
    """It is the model's endpoint that refused."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        return await captured_by_art(agent(model, scenario, "deny"))

    with pytest.raises(OutageError, match="a failure that no other can escape"):
        await gather_groups(capture_partial(rollout), model, [SCENARIO])


async def test_a_partial_episode_keeps_the_reward_that_its_function_had_given(model: Any) -> None:
    """The turns come from the requests, and what they were worth from the trajectory in hand."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": "hi"}])
        trajectory.messages_and_choices.append(await ask(model, trajectory.messages()))
        trajectory.reward, trajectory.metrics["won"], trajectory.metadata["level"] = 0.6, True, 3
        trajectory.log("halfway")
        raise KeyError("door")

    wrapped = capture_partial(rollout, failure_policy=FailurePolicy(keep={"environment"}))
    (group,) = (await gather_groups(wrapped, model, [SCENARIO], rollouts_per_group=1)).groups

    (episode,) = group.trajectories
    assert turns(episode) == [{"role": "user", "content": "hi"}, "reply 0"]
    assert (episode.reward, episode.environment_reward) == (0.6, 0.6)  # type: ignore[attr-defined]
    assert (episode.metrics["won"], episode.metadata["level"], episode.logs[0]) == (True, 3, "halfway")


@pytest.mark.parametrize("reward", [None, EnvironmentReward()], ids=["as it is", "the function's own"])
async def test_a_partial_episode_that_was_given_no_reward_is_not_worth_0(model: Any, reward: Any) -> None:
    """The function would have said at its end; `keep` keeps an episode, and cannot make up a reward."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": "hi"}])
        trajectory.messages_and_choices.append(await ask(model, trajectory.messages()))
        raise KeyError("door")

    wrapped = capture_partial(rollout, failure_policy=FailurePolicy(keep={"environment"}))
    unscored = await gather_groups(wrapped, model, [SCENARIO], rollouts_per_group=2, reward=reward)
    scored = await gather_groups(
        wrapped, model, [SCENARIO], rollouts_per_group=2, reward=ProgrammaticReward(lambda one: 0.25)
    )

    assert (unscored.groups[0].trajectories, unscored.counts.lost) == ([], {"reward": 2})
    assert [one.reward for one in scored.groups[0].trajectories] == [0.25, 0.25]


async def test_an_overflow_is_worth_what_the_function_had_given_by_then(model: Any) -> None:
    """A limit is an end like any other."""
    (group,) = (await gather_groups(capture_partial(failing("overflow")), model, [SCENARIO])).groups

    assert [one.reward for one in group.trajectories] == [0.5] * 4


async def test_an_error_in_place_of_another_hides_no_turns(model: Any) -> None:
    """Agents tidy up what they show to their callers: `raise … from None`."""

    async def inner(trajectory: art.Trajectory) -> None:
        async with own_client(model) as client:
            completion = await client.chat.completions.create(model="scripted", messages=trajectory.messages())
        trajectory.messages_and_choices.append(completion.choices[0])
        raise KeyError("door")

    async def played() -> None:
        await inner(art.Trajectory(messages_and_choices=[{"role": "user", "content": "hi"}]))

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        try:
            await played()
        except KeyError:
            raise RuntimeError("the agent failed") from None
        raise AssertionError

    assert turns(await capture_partial(rollout)(model, SCENARIO)) == [{"role": "user", "content": "hi"}, "reply 0"]


@pytest.mark.art_captures
async def test_what_art_captured_needs_no_name(model: Any) -> None:
    """`with art.Trajectory():` is all that an agent with a client of its own has to do; a task of its own may do it."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        async def captured() -> None:
            with art.Trajectory():  # type: ignore[attr-defined]
                await agent(model, scenario, KeyError("door"))

        await asyncio.create_task(captured())
        raise AssertionError

    scenarios = [Scenario(id=f"{number}") for number in range(4)]
    episodes = await asyncio.gather(*(capture_partial(rollout)(model, scenario) for scenario in scenarios))

    assert [[message["content"] for message in episode.messages()] for episode in episodes] == [
        [f"task {number}", "reply 0", "and?", "reply 1"] for number in range(4)
    ]
