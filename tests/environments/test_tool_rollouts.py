"""A model behind a real server calls the tools of an environment: what was reported from the field, and what is right."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import random
import re
from pathlib import Path
from typing import Any

import art
import numpy as np
import pytest

from artkit.environments import Environment, StepResult, ToolEnvironment, ToolResult, tool
from artkit.episodes import FailureKind, FailurePolicy, StopReason, read_groups, write_groups
from artkit.errors import EnvironmentContractError
from artkit.rewards import DropFailures, EnvironmentReward, ProgrammaticReward
from artkit.rollouts import Limits, Rollout, Sampling, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply
from artkit.transport import EmptyReplyError

SCENARIO = Scenario(id="s")
OVERFLOW = Reply(status=400, error="maximum context length is 8192 tokens, request has 8195")


class Desk(ToolEnvironment[Scenario]):
    max_turns = 30

    async def reset(self, scenario: Scenario) -> Any:
        return "What is in the room?"

    @tool
    def look(self, at: str) -> ToolResult:
        """Look at something.

        Args:
            at: What to look at.
        """
        return ToolResult(f"a {at}", reward=0.5, metrics={"looks": 1})


def look(at: str = "door", **arguments: Any) -> Reply:
    return Reply(tool_calls=[("look", {"at": at})], **arguments)


def calling(arguments: str, **more: Any) -> Reply:
    return Reply(tool_calls=[("look", arguments)], **more)


def strict(script: list[Reply | str]) -> Any:
    """A server whose template parses the arguments of every stored call, and wants content and an answer to each."""
    replies = iter(script)

    def answer(body: dict[str, Any]) -> Reply | str:
        open_calls: list[str] = []
        for message in body["messages"]:
            if not isinstance(message["content"], str | list):
                return Reply(status=400, error="content is missing")
            if message["role"] == "tool":
                if message["tool_call_id"] != open_calls.pop(0):
                    return Reply(status=400, error="an answer to another call")
            elif open_calls:
                return Reply(status=400, error="a call without an answer")
            open_calls += [call["id"] for call in message.get("tool_calls") or ()]
            if not all(map(is_valid, message.get("tool_calls") or ())) or len(set(open_calls)) < len(open_calls):
                return Reply(status=400, error="arguments do not parse, no name of a tool, or two calls of one id")
        return next(replies)

    return answer


def is_valid(call: dict[str, Any]) -> bool:
    function = call["function"]
    try:
        is_object = isinstance(json.loads(function["arguments"]), dict)
    except ValueError:
        return False
    return is_object and re.fullmatch("[a-zA-Z0-9_-]{1,64}", function["name"]) is not None


async def test_tools_and_their_answers_reach_the_model() -> None:
    """The whole of a turn with a tool, as it is sent."""
    async with ChatServer([look(), "A door."]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    first, second = server.requests
    assert first["tools"] == Desk().tools() == episode.tools
    assert second["messages"][1:] == [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_1_0", "type": "function", "function": {"name": "look", "arguments": '{"at": "door"}'}}
        ]},
        {"role": "tool", "tool_call_id": "call_1_0", "content": "a door"},
    ]  # fmt: skip
    assert (episode.outcome, episode.stop_reason, episode.reward) == ("A door.", StopReason.DONE, 0.5)
    assert (episode.metrics["turns"], episode.metrics["looks"], episode.metrics["tool_errors"]) == (2, 1, 0)


async def test_arguments_that_were_encoded_twice_are_answered() -> None:
    """Parsed once they are a text, and a rollout that calls the tool with it breaks."""
    async with ChatServer([calling('"{\\"a\\": 1}"'), "bye"]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert server.requests[1]["messages"][-1] == {
        "role": "tool", "tool_call_id": "call_1_0", "content": "arguments must be an object, got string",
    }  # fmt: skip
    assert (episode.stop_reason, episode.metrics["tool_errors"]) == (StopReason.DONE, 1)


@pytest.mark.parametrize("arguments", ["{a:1}", '"{}"', '{"at": "do', "[1]", '{"at": NaN}', ""])
async def test_what_is_sent_is_valid_and_what_is_kept_is_what_was_said(arguments: str) -> None:
    """A server's template that parses stored arguments would refuse every further request of the episode."""
    async with ChatServer(strict([calling(arguments), look(), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["turns"], episode.metrics["tool_errors"]) == (StopReason.DONE, 3, 1)
    assert episode.messages_and_choices[1].message.tool_calls[0].function.arguments == arguments


@pytest.mark.parametrize("name", ["functions.look", "look\n", 'look" />', "x" * 100])
async def test_a_name_that_no_tool_can_have_is_answered_and_the_episode_goes_on(name: str) -> None:
    """A server that checks names would refuse every further request; the record keeps what was said."""
    async with ChatServer(strict([Reply(tool_calls=[(name, {"at": "door"})]), look(), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    answer = {
        "role": "tool",
        "tool_call_id": "call_1_0",
        "content": f"there is no tool {name!r}, the tools are: 'look'",
    }
    assert episode.messages_and_choices[2] == answer
    assert episode.messages_and_choices[1].message.tool_calls[0].function.name == name
    assert (episode.stop_reason, episode.metrics["turns"], episode.metrics["tool_errors"]) == (StopReason.DONE, 3, 1)


async def test_two_calls_of_one_id_are_answered_each_under_its_own() -> None:
    """Some models repeat an id, and a server that finds two answers under one refuses the request."""
    calls = [
        {"id": "a", "type": "function", "function": {"name": "look", "arguments": f'{{"at": "{at}"}}'}}
        for at in ("door", "wall")
    ]
    async with ChatServer(strict([Reply(tool_calls=calls), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    asked, *answered = server.requests[1]["messages"][1:]
    assert [call["id"] for call in asked["tool_calls"]] == ["a", "a_1"]
    assert answered == [
        {"role": "tool", "tool_call_id": "a", "content": "a door"},
        {"role": "tool", "tool_call_id": "a_1", "content": "a wall"},
    ]
    assert [call.id for call in episode.messages_and_choices[1].message.tool_calls] == ["a", "a"]


async def test_a_reply_that_only_reasons_has_an_empty_text() -> None:
    """Some servers leave `content` out; others refuse a message without it."""

    class Patient(Desk):
        async def on_reply(self, action: Any) -> StepResult:
            return StepResult("go on", done=action.text != "", outcome=action.text)

    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "reasoning_content": "hm"}}
    thinking = Reply(raw_body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
    async with ChatServer(strict([thinking, "bye"])) as server:
        episode = await Rollout(Patient)(server.model(), SCENARIO)

    assert server.requests[1]["messages"][1] == {"role": "assistant", "content": ""}
    assert episode.messages_and_choices[1].message.model_extra["reasoning_content"] == "hm"
    assert (episode.outcome, episode.metrics["retries"]) == ("bye", 0)


MISSHAPEN = {
    "no id": ({"type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}, "call00000", "a x"),
    "empty id": ({"id": "", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}, "call00000", "a x"),
    "no type": ({"id": "1", "function": {"name": "look", "arguments": '{"at": "x"}'}}, "1", "a x"),
    "object": ({"id": "1", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}}, "1", "a x"),
    "no arguments": ({"id": "1", "type": "function", "function": {"name": "look"}}, "1", "argument 'at' is missing"),
    "null": ({"id": "1", "type": "function", "function": {"name": "look", "arguments": None}}, "1", "argument 'at' is missing"),
    "no name": ({"id": "1", "type": "function", "function": {"arguments": "{}"}}, "1", "the call names no tool, the tools are: 'look'"),
}  # fmt: skip


# Some versions of ART dump each reply, and pydantic warns of what is not as OpenAI sends it.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize(("call", "call_id", "text"), MISSHAPEN.values(), ids=MISSHAPEN)
async def test_a_call_that_lacks_something_is_answered_under_its_id(call: Any, call_id: str, text: str) -> None:
    """Servers parse what models write, and not always to the end; a made-up id is the same in call and answer."""
    async with ChatServer(strict([Reply(tool_calls=[call]), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    asked, answered = server.requests[1]["messages"][1:]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] == call_id
    assert (answered["content"], episode.stop_reason) == (text, StopReason.DONE)


# As above.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
async def test_a_made_up_id_comes_once_in_a_conversation() -> None:
    """Some servers refuse one that comes again; the record keeps what the server said."""
    calls = [{"type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}] * 2
    async with ChatServer(strict([Reply(tool_calls=calls), Reply(tool_calls=calls), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    sent = server.requests[-1]["messages"]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert answered == ["call00000", "call00001", "call00100", "call00101"]
    assert [call["id"] for message in sent for call in message.get("tool_calls") or ()] == answered
    assert [call.id for call in episode.messages_and_choices[1].message.tool_calls] == [None, None]


async def test_the_messages_read_back_are_those_that_were_sent() -> None:
    """Calls that vanish from earlier turns are context that was never trained on."""
    parallel = Reply("I look.", tool_calls=[("look", {"at": "door"}), ("look", {"at": "wall"})])
    async with ChatServer(strict([parallel, look("lamp"), "bye"])) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    sent = server.requests[-1]["messages"]
    assert [_essence(message) for message in episode.messages()[:-1]] == [_essence(message) for message in sent]
    assert [message.get("tool_call_id") for message in sent] == [None, None, "call_1_0", "call_1_1", None, "call_2_0"]


async def test_a_tools_picture_stays_a_picture(tmp_path: Path) -> None:
    """As text it is megabytes of noise; it is sent, kept, saved and loaded as it was."""
    blocks = [{"type": "text"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]

    class Camera(Desk):
        @tool
        def photograph(self) -> list[dict[str, Any]]:
            return blocks

    async with ChatServer([Reply(tool_calls=[("photograph", {})]), "bye"]) as server:
        episode = await Rollout(Camera)(server.model(), SCENARIO)
    write_groups(tmp_path / "groups.jsonl", [art.TrajectoryGroup([episode])])
    [group], _ = read_groups(tmp_path / "groups.jsonl", [SCENARIO])

    answer = {"role": "tool", "tool_call_id": "call_1_0", "content": blocks}
    assert server.requests[1]["messages"][-1] == answer
    assert group.trajectories[0].messages_and_choices == episode.messages_and_choices
    assert episode.messages_and_choices[2] == answer


async def test_a_failure_that_a_tool_does_not_answer_leaves_a_partial_episode() -> None:
    """A full disk is nobody's policy: the episode leaves its group, and never becomes reward 0."""

    class Broken(Desk):
        @tool
        def look(self, at: str) -> None:
            raise OSError("disk full")

    async with ChatServer([look()]) as server:
        episode = await Rollout(Broken)(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.kind, str(episode.failure)) == (FailureKind.ENVIRONMENT, "OSError: disk full")
    assert (episode.metrics["turns"], episode.metrics["tool_errors"]) == (1, 0)


async def test_a_tool_that_takes_too_long_is_answered_within_the_rollouts_limit() -> None:
    """The rollout's `tool_timeout_s` is each tool's, unless it has its own."""

    class Slow(Desk):
        @tool
        async def look(self, at: str) -> None:
            await asyncio.Event().wait()

    async with ChatServer([look(), "bye"]) as server:
        episode = await Rollout(Slow, limits=Limits(tool_timeout_s=0.05))(server.model(), SCENARIO)

    assert server.requests[1]["messages"][-1]["content"] == "look took longer than 0.05 s"
    assert (episode.stop_reason, episode.failure, episode.metrics["tool_errors"]) == (StopReason.DONE, None, 1)


# Truncation and overflow


async def test_an_overflow_ends_the_episode_with_its_turns_and_its_reward() -> None:
    """Recorded as a crash, the turns before it would be lost; it is the policy's own doing, and scored."""
    seen: list[Any] = []

    async def grade(episode: Any) -> float:
        seen.append(episode.metrics["turns"])
        return 0.25

    async with ChatServer([look(), look(), OVERFLOW]) as server:
        gathered = await gather_groups(
            Rollout(Desk), server.model(), [SCENARIO], rollouts_per_group=1, reward=ProgrammaticReward(grade)
        )

    [group] = gathered.groups
    [episode] = group.trajectories
    assert (episode.stop_reason, episode.metrics["truncated"], episode.metrics["error"]) == (
        "context_overflow",
        True,
        False,
    )
    assert (episode.reward, episode.environment_reward, seen) == (0.25, 1.0, [2])
    assert (gathered.lost, group.exceptions, len(server.requests)) == ([], [], 3)


@pytest.mark.parametrize("reward", [EnvironmentReward(), None])
async def test_an_overflow_keeps_what_the_environment_paid(reward: Any) -> None:
    """What was reached before it was reached."""
    async with ChatServer([look(), OVERFLOW]) as server:
        gathered = await gather_groups(Rollout(Desk), server.model(), [SCENARIO], rollouts_per_group=1, reward=reward)

    assert [member.reward for member in gathered.groups[0].trajectories] == [0.5]


async def test_a_refusal_that_is_no_overflow_is_a_failure() -> None:
    """An episode must not end politely over a mistake in the request."""
    async with ChatServer([look(), Reply(status=400, error="Invalid value for 'temperature'")]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metadata["failure_kind"]) == (StopReason.ERROR, "infrastructure")


async def test_groups_with_an_overflow_can_be_dropped() -> None:
    """Whether they teach anything is the user's judgement."""
    async with ChatServer([look(), OVERFLOW]) as server:
        gathered = await gather_groups(Rollout(Desk), server.model(), [SCENARIO], rollouts_per_group=1)

    [(group, reason)] = DropFailures({"limit"}).apply(gathered.groups).dropped
    assert (group, reason) == (gathered.groups[0], "failures: 1 of kind limit")


async def test_the_first_reply_that_was_cut_off_ends_the_episode() -> None:
    """Near its limit a model goes on with one-word replies for every turn that is left."""
    async with ChatServer([look(), look(), *[Reply("go", finish_reason="length")] * 28]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["truncated"], episode.metrics["turns"]) == (
        StopReason.TRUNCATED,
        True,
        3,
    )
    assert (episode.reward, episode.metadata["failure_kind"]) == (1.0, "limit")


async def test_a_reply_that_was_cut_off_can_be_left_to_the_environment() -> None:
    """Where a world can make something of half a reply; no half call is run even then."""
    cut_off = calling('{"at": "do', finish_reason="length")
    async with ChatServer([cut_off, look(), "bye"]) as server:
        episode = await Rollout(Desk, limits=Limits(stop_when_truncated=False))(server.model(), SCENARIO)

    assert server.requests[1]["messages"][-1]["content"] == "not run: the reply was cut off at its token limit"
    assert (episode.stop_reason, episode.metrics["truncated"], episode.metrics["turns"]) == (StopReason.DONE, True, 3)
    assert (episode.metrics["tool_errors"], episode.reward) == (1, 0.5)


CUT_OFF = {"completion_tokens": 16, "prompt_tokens": 9, "total_tokens": 25}


async def test_a_call_that_was_cut_off_at_the_token_limit_ends_the_episode() -> None:
    """Some servers report a call they could not read to its end as any other."""
    calls = [("look", {"at": "door"}), ("look", '{"at": "wa')]
    reply = Reply(tool_calls=calls, finish_reason="tool_calls", usage=CUT_OFF)
    async with ChatServer([reply, "never"]) as server:
        rollout = Rollout(Desk, sampling=Sampling(max_completion_tokens=16))
        episode = await rollout(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["turns"], episode.reward) == (StopReason.TRUNCATED, 1, 0.0)
    assert episode.messages_and_choices[-1].finish_reason == "length"
    assert episode.messages_and_choices[-1].message.tool_calls[1].function.arguments == '{"at": "wa'
    assert episode.logs == [
        "turn 0: finish_reason='tool_calls' became 'length', for the reply ends inside a tool call, at its limit of 16 tokens"
    ]


@pytest.mark.parametrize("limit", [{"max_tokens": 16}, {"max_completion_tokens": 16}])
async def test_a_token_limit_that_only_the_server_knows_by_its_own_name_holds_too(limit: Any) -> None:
    """`max_tokens` is what older servers understand."""
    async with ChatServer([calling('{"at": "wa', usage=CUT_OFF), "never"]) as server:
        episode = await Rollout(Desk, sampling=Sampling(extra_body=limit))(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["turns"]) == (StopReason.TRUNCATED, 1)


async def test_a_call_that_was_cut_off_after_its_name_is_not_run() -> None:
    """A tool that takes no arguments would run on half a call."""

    class Eager(Desk):
        @tool
        def leave(self) -> ToolResult:
            return ToolResult(reward=-1.0)

    reply = Reply(tool_calls=[("leave", "")], finish_reason="tool_calls", usage=CUT_OFF)
    async with ChatServer([reply, "never"]) as server:
        episode = await Rollout(Eager, sampling=Sampling(max_completion_tokens=16))(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.reward) == (StopReason.TRUNCATED, 0.0)


@pytest.mark.parametrize("word", ["model_length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"])
async def test_another_servers_word_for_a_reply_that_was_cut_off_is_understood(word: str) -> None:
    """Gateways pass on what the provider behind them says."""
    async with ChatServer([look(finish_reason=word), "never"]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["truncated"], episode.reward) == (StopReason.TRUNCATED, True, 0.0)
    assert episode.logs == [f"turn 0: finish_reason={word!r} became 'length', for that is what it means"]


@pytest.mark.parametrize(
    ("reply", "limit"),
    [
        (calling('{"at": "wa', usage={**CUT_OFF, "completion_tokens": 15}), 16),
        (calling('{"at": "wa', usage=CUT_OFF), None),
        (look(usage=CUT_OFF), 16),
    ],
    ids=["below the limit", "no limit known", "whole at the limit"],
)
async def test_a_call_that_was_not_cut_off_at_the_limit_is_answered(reply: Reply, limit: int | None) -> None:
    """A call that the model itself left unfinished is its mistake, and a whole one that just fits is none."""
    async with ChatServer([reply, "bye"]) as server:
        rollout = Rollout(Desk, sampling=Sampling(max_completion_tokens=limit))
        episode = await rollout(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["turns"]) == (StopReason.DONE, 2)


async def test_a_finished_episode_keeps_its_reward() -> None:
    """Whatever breaks once it is over: here at its last turn, and while it closes."""

    class Fragile(Desk):
        max_turns = 1

        @tool(final=True)
        def submit(self) -> ToolResult:
            return ToolResult("right", reward=1.0, outcome="5")

        async def close(self) -> None:
            raise OSError("gone")

    async with ChatServer([Reply(tool_calls=[("submit", {})])]) as server:
        episode = await Rollout(Fragile)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.reward, episode.outcome) == (StopReason.DONE, 1.0, "5")
    assert (episode.failure, episode.metrics["truncated"], episode.metrics["error"]) == (None, False, False)


# Empty replies

_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_BODY = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": _USAGE}
EMPTY = [Reply(raw_body={**_BODY, "choices": None}), Reply(raw_body={**_BODY, "choices": []}), Reply("", usage=_USAGE)]


async def test_replies_without_anything_in_them_are_asked_for_again_and_paid_for() -> None:
    """Providers send no choices, null for them, or a message with neither text nor calls; each was charged."""
    async with ChatServer([*EMPTY, Reply("bye", usage=_USAGE)]) as server:
        episode = await Rollout(Desk)(server.model(), SCENARIO)

    assert (episode.outcome, episode.metrics["retries"], episode.metrics["turns"]) == ("bye", 3, 1)
    assert (episode.metrics["prompt_tokens"], episode.metrics["completion_tokens"]) == (400, 40)


@pytest.mark.parametrize("empty", EMPTY, ids=["choices null", "no choices", "nothing said"])
async def test_a_server_that_only_sends_empty_replies_is_named(empty: Reply) -> None:
    """Not an IndexError somewhere in the rollout, and nothing is trained on."""
    policy = FailurePolicy(max_retries=0)
    async with ChatServer([empty, look(), empty]) as server:
        with pytest.raises(EmptyReplyError):
            await Rollout(Desk, failure_policy=policy)(server.model(), SCENARIO)
        episode = await Rollout(Desk, failure_policy=policy)(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.type, episode.metadata["failure_kind"]) == ("EmptyReplyError", "infrastructure")
    assert episode.metrics["turns"] == 1


# The world around


class Forgetful(Environment[Scenario]):
    """The task is only in what reset returns, and that is lost."""

    first: Any = None

    async def reset(self, scenario: Scenario) -> Any:
        return self.first

    async def step(self, action: Any) -> StepResult:
        return StepResult(done=True)


@pytest.mark.parametrize(
    "first", [None, "", [], [{"role": "user", "content": ""}], [{"role": "system", "content": None}]]
)
async def test_a_task_that_never_reaches_the_model_is_an_error(first: Any) -> None:
    """A worker that threw the observation away trained on rewards that were all 0."""
    environment = type("Lost", (Forgetful,), {"first": first})

    async with ChatServer(["bye"]) as server:
        with pytest.raises(EnvironmentContractError, match=r"reset\(\) gave"):
            await Rollout(environment)(server.model(), SCENARIO)

    assert server.requests == []


async def test_the_first_request_holds_what_reset_gave() -> None:
    """The task is told by the environment, and by nobody else."""
    async with ChatServer(["bye"]) as server:
        await Rollout(Desk)(server.model(), SCENARIO)

    assert server.requests[0]["messages"] == [{"role": "user", "content": "What is in the room?"}]


async def test_rollouts_side_by_side_have_settings_of_their_own() -> None:
    """In `os.environ` the last writer wins; a context variable is one rollout's alone, also across an await."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")
    barrier = asyncio.Barrier(2)

    class Personal(ToolEnvironment[Scenario]):
        async def reset(self, scenario: Scenario) -> str:
            user.set(scenario.id)
            await barrier.wait()
            return "Who am I?"

        @tool
        async def who(self) -> str:
            await barrier.wait()
            return user.get()

        @tool(final=True)
        def submit(self) -> str:
            return user.get()

    calls = Reply(tool_calls=[("who", {}), ("submit", {})])
    async with ChatServer([calls, calls]) as server:
        model = server.model()
        episodes = await asyncio.gather(*(Rollout(Personal)(model, Scenario(id=name)) for name in ("ann", "ben")))

    assert [episode.outcome for episode in episodes] == ["ann", "ben"]
    assert [episode.messages_and_choices[2]["content"] for episode in episodes] == ["ann", "ben"]


async def test_nothing_of_the_process_is_changed() -> None:
    """Whatever a user's program set stays as it was."""

    def state() -> list[Any]:
        loggers = [logging.root.level, list(logging.root.handlers)]
        return [dict(os.environ), Path.cwd(), random.getstate(), repr(np.random.get_state()), *loggers]

    async with ChatServer([look(), look(), "bye"]) as server:
        model = server.model()
        before = state()
        await Rollout(Desk, sampling=Sampling(seed=1))(model, SCENARIO)

    assert state() == before


def _essence(message: Any) -> Any:
    """A message without what only the server's own object has."""
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return message["role"], message["content"], calls, message.get("tool_call_id")
