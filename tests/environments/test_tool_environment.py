"""Calls of tools: run, answered under their ids, and counted."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime as dt
import enum
import json
import math
import sys
import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from artkit.environments import Action, Environment, StepResult, ToolEnvironment, ToolResult, play, tool
from artkit.episodes import Episode, StopReason
from artkit.errors import ConfigurationError, EnvironmentContractError, ToolError
from artkit.scenarios import Scenario
from artkit.testing import Reply, choice


class World(ToolEnvironment[Scenario]):
    async def reset(self, scenario: Scenario) -> str:
        return "go"


class Recorded:
    """An actor that replies from a list, and keeps what it was sent last."""

    def __init__(self, *replies: Reply | str) -> None:
        self.sent: list[dict[str, Any]] = []
        self._replies = replies

    async def act(self, messages: list[dict[str, Any]], tools: Any, turn: int) -> Any:
        self.sent = list(messages)
        return choice(self._replies[turn])


def reply(*calls: tuple[str, Mapping[str, Any] | str], **arguments: Any) -> Action:
    said = choice(Reply(tool_calls=calls, **arguments))
    return Action(said.message, said.finish_reason)


async def answers(environment: ToolEnvironment[Any], *calls: tuple[str, Mapping[str, Any] | str]) -> list[Any]:
    """The content of each answer."""
    result = await environment.step(reply(*calls))
    return [message["content"] for message in result.messages]


async def test_calls_are_answered_in_order_under_their_ids() -> None:
    """Ids that are mixed up give the model the wrong answer to each question."""

    class Desk(World):
        @tool
        def double(self, n: int) -> int:
            return 2 * n

        @tool
        async def hello(self) -> str:
            return "hello"

    result = await Desk().step(reply(("double", {"n": 2}), ("hello", {}), ("double", {"n": 3})))

    assert result == StepResult(
        [
            {"role": "tool", "tool_call_id": "call_1_0", "content": "4"},
            {"role": "tool", "tool_call_id": "call_1_1", "content": "hello"},
            {"role": "tool", "tool_call_id": "call_1_2", "content": "6"},
        ]
    )


async def test_arguments_arrive_as_they_are_annotated() -> None:
    """The tool's author writes against types and not against JSON."""

    class Size(enum.Enum):
        SMALL = "s"

    class Point(BaseModel):
        x: int

    got: list[Any] = []

    class Desk(World):
        @tool
        def pack(self, size: Size, at: list[Point], day: dt.date, n: int, rest: tuple[int, ...] = (7,)) -> None:
            got.append((size, at, day, n, rest))

    await Desk().step(reply(("pack", {"size": "s", "at": [{"x": 1}], "day": "2024-01-02", "n": "3"})))

    assert got == [(Size.SMALL, [Point(x=1)], dt.date(2024, 1, 2), 3, (7,))]


async def test_a_default_is_the_methods_own_object() -> None:
    """A copy of it would not be `is` it."""
    nothing = object()

    class Desk(World):
        @tool
        def look(self, at: Any = nothing) -> bool:
            return at is nothing

    assert await answers(Desk(), ("look", {}), ("look", {"at": None})) == ["true", "false"]


class Shop(World):
    @tool
    def price(self, item: str, count: int = 1) -> str:
        return f"{item} {count}"


BAD_CALLS = {
    "encoded twice": (("price", json.dumps(json.dumps({"a": 1}))), "arguments must be an object, got string"),
    "array": (("price", "[1]"), "arguments must be an object, got array"),
    "no JSON": (("price", "{a:1}"), "arguments are not valid JSON: "),
    "cut off": (("price", '{"item": "la'), "arguments are not valid JSON: "),
    "unknown tool": (("prise", {}), "there is no tool 'prise', the tools are: 'price'"),
    "no name": (("", {}), "the call names no tool, the tools are: 'price'"),
    "missing": (("price", {}), "argument 'item' is missing"),
    "missing, no text": (("price", ""), "argument 'item' is missing"),
    "wrong type": (
        ("price", {"item": "lamp", "count": "many"}),
        "argument 'count': input should be a valid integer, unable to parse string as an integer, got \"many\"",
    ),
    "unknown": (("price", {"item": "a", "n": 1}), "there is no argument 'n', the arguments are: 'item', 'count'"),
}


@pytest.mark.parametrize(("call", "text"), BAD_CALLS.values(), ids=BAD_CALLS)
async def test_a_call_that_cannot_be_run_is_answered_and_counted(call: Any, text: str) -> None:
    """A model learns from being told; an exception would teach nobody."""
    result = await Shop().step(reply(call))

    [message] = result.messages
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1_0")
    assert message["content"].startswith(text)
    assert (result.metrics, result.done) == ({"tool_errors": 1}, False)


@given(st.text())
async def test_whatever_a_model_writes_for_arguments_is_answered(text: str) -> None:
    """It samples anything at all."""
    result = await Shop().step(reply(("price", text)))

    assert [message["tool_call_id"] for message in result.messages] == ["call_1_0"]


@pytest.mark.parametrize("depth", [250, 900])
async def test_arguments_nested_without_end_are_answered(depth: int) -> None:
    """They are valid JSON, and too deep for whoever reads them."""
    text = f'{{"item": {"[" * depth}{"]" * depth}}}'
    result = await Shop().step(reply(("price", text)))

    [message] = result.messages
    assert message["content"].startswith("arguments")
    assert len(message["content"]) < 300


async def test_half_a_character_in_arguments_is_replaced() -> None:
    """A model samples bytes, and files and databases take none."""
    assert await answers(Shop(), ("price", {"item": "la\ud83d"})) == ["la\ufffd 1"]


async def test_a_bad_call_costs_its_siblings_nothing() -> None:
    """Each call is answered for itself, and each bad one counted."""
    result = await Shop().step(reply(("price", "{"), ("price", {"item": "lamp"}), ("prise", {})))

    assert [message["content"] for message in result.messages][1] == "lamp 1"
    assert result.metrics == {"tool_errors": 2}


async def test_arguments_are_held_against_a_schema_that_was_given() -> None:
    """It says more than annotations do, and there may be none."""
    given = {"type": "object", "properties": {"at": {"enum": ["door"]}}, "required": ["at"]}

    class Desk(World):
        @tool(schema=given)
        def look(self, at):
            return f"a {at}"

        @tool(schema=given)
        def gather(self, **arguments):
            return arguments

    assert await answers(Desk(), ("look", {"at": "door"}), ("look", {"at": "wall"}), ("look", {})) == [
        "a door",
        "argument 'at': 'wall' is not one of ['door']",
        "arguments: 'at' is a required property",
    ]
    assert await answers(Desk(), ("gather", {"at": "door", "more": 1})) == ['{"at": "door", "more": 1}']


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("the shop is closed"), "the shop is closed"),
        (ToolError(), "ToolError"),
        (ValueError("no such day"), "ValueError: no such day"),
        (TypeError("no text"), "TypeError: no text"),
        (KeyError("lamp"), "KeyError: 'lamp'"),
        (IndexError(), "IndexError"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failure_that_the_model_can_mend_is_answered(error: Exception, text: str, is_async: bool) -> None:
    """It asked for something that is not there; it may ask again."""

    class Desk(World):
        if is_async:

            @tool
            async def look(self) -> None:
                raise error
        else:

            @tool
            def look(self) -> None:
                raise error

    result = await Desk().step(reply(("look", {})))

    assert [message["content"] for message in result.messages] == [text]
    assert result.metrics == {"tool_errors": 1}


@pytest.mark.parametrize(
    "error",
    [OSError("disk"), RuntimeError("bug"), TimeoutError("its own"), ConfigurationError("x", "y"), asyncio.QueueFull()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_parallel", [True, False])
async def test_any_other_failure_is_the_environments(error: Exception, is_parallel: bool) -> None:
    """No model can mend a full disk; answered, the episode would be trained on."""

    class Desk(World):
        @tool(parallel=is_parallel)
        async def look(self) -> None:
            raise error

    with pytest.raises(type(error)) as raised:
        await Desk().step(reply(("look", {}), ("look", {})))

    assert raised.value is error


async def test_which_failures_are_answered_is_the_tools_choice() -> None:
    """A search that times out is the model's business, a lookup that fails may not be."""

    class Desk(World):
        @tool(answers=(OSError,))
        def look(self, error: str) -> None:
            raise {"os": OSError("gone"), "tool": ToolError("told"), "value": ValueError("bug")}[error]

    assert await answers(Desk(), ("look", {"error": "os"}), ("look", {"error": "tool"})) == ["OSError: gone", "told"]
    with pytest.raises(ValueError, match="bug"):
        await Desk().step(reply(("look", {"error": "value"})))


async def test_a_sync_tool_runs_off_the_event_loop() -> None:
    """While it waits for a database, a hundred other episodes go on."""
    release = threading.Event()

    class Desk(World):
        @tool
        def look(self) -> str:
            return "released" if release.wait(10) else "nobody came"

    task = asyncio.create_task(answers(Desk(), ("look", {})))
    await asyncio.sleep(0)
    release.set()  # by the loop, which still turns while the tool waits

    assert await task == ["released"]


async def test_a_sync_tool_sees_the_callers_context() -> None:
    """What belongs to one rollout travels with it in context variables."""
    user = contextvars.ContextVar("user", default="nobody")

    class Desk(World):
        @tool
        def who(self) -> str:
            return user.get()

    user.set("ann")

    assert await answers(Desk(), ("who", {})) == ["ann"]


async def test_a_sync_tool_that_exits_is_the_environments_failure() -> None:
    """In a thread of its own nobody would hear of it."""

    class Desk(World):
        @tool
        def look(self) -> None:
            sys.exit("done")

    with pytest.raises(EnvironmentContractError, match=r"the tool 'look' ended in SystemExit\(done\)"):
        await Desk().step(reply(("look", {})))


async def _order_of(*, parallel: tuple[bool, bool]) -> list[str]:
    """Two calls that wait for each other's start as long as the loop has anything else to do."""
    order: list[str] = []

    async def run(name: str) -> None:
        order.append(f"{name} begins")
        for _ in range(5):
            await asyncio.sleep(0)
        order.append(f"{name} ends")

    class Desk(World):
        @tool(parallel=parallel[0])
        async def a(self) -> None:
            await run("a")

        @tool(parallel=parallel[1])
        async def b(self) -> None:
            await run("b")

    await Desk().step(reply(("a", {}), ("b", {})))
    return order


async def test_calls_run_side_by_side_where_all_of_them_say_so() -> None:
    """Two searches need not wait for each other."""
    assert await _order_of(parallel=(True, True)) == ["a begins", "b begins", "a ends", "b ends"]


@pytest.mark.parametrize("parallel", [(False, False), (True, False), (False, True)])
async def test_calls_run_one_after_the_other_where_one_does_not(parallel: tuple[bool, bool]) -> None:
    """A tool that writes must not run beside one that reads."""
    assert await _order_of(parallel=parallel) == ["a begins", "a ends", "b begins", "b ends"]


async def test_answers_of_parallel_calls_stand_in_the_order_of_the_calls() -> None:
    """The first to end is not the first to have been asked."""
    second = asyncio.Event()

    class Desk(World):
        @tool(parallel=True)
        async def look(self, n: int) -> int:
            if n == 1:
                await second.wait()
            second.set()
            return n

    assert await answers(Desk(), ("look", {"n": 1}), ("look", {"n": 2})) == ["1", "2"]


class Hanging(World):
    def __init__(self) -> None:
        self.release = threading.Event()

    @tool
    async def wait(self) -> None:
        await asyncio.Event().wait()

    @tool
    def block(self) -> None:
        self.release.wait(30)

    @tool(timeout_s=0.01)
    async def impatient(self) -> None:
        await asyncio.Event().wait()

    @tool(timeout_s=math.inf)
    async def patient(self) -> str:
        await asyncio.sleep(0.03)
        return "there"

    @tool
    def look(self) -> str:
        return "a door"


async def test_a_tool_that_takes_too_long_is_answered_and_counted() -> None:
    """One slow page must not cost the whole episode; the next call is run."""
    actor = Recorded(Reply(tool_calls=[("wait", {}), ("look", {})]), "bye")
    episode = Episode(scenario=Scenario(id="s"))

    await play(Hanging(), actor, episode, step_timeout_s=0.05)

    assert [message["content"] for message in actor.sent[-2:]] == ["wait took longer than 0.05 s", "a door"]
    assert (episode.stop_reason, episode.metrics["tool_errors"]) == (StopReason.DONE, 1)


async def test_no_tool_runs_beside_a_thread_that_cannot_be_ended() -> None:
    """Two queries on one connection at once are as bad as a close under one."""
    environment = Hanging()
    actor = Recorded(Reply(tool_calls=[("block", {}), ("look", {})]), Reply(tool_calls=[("look", {})]), "bye")
    episode = Episode(scenario=Scenario(id="s"))

    await play(environment, actor, episode, step_timeout_s=0.01)
    environment.release.set()

    refused = "look was not run: a call before it still ran after 0.01 s"
    answers = [message["content"] for message in actor.sent if message["role"] == "tool"]
    assert answers == ["block took longer than 0.01 s", refused, refused]
    assert (episode.stop_reason, episode.metrics["tool_errors"]) == (StopReason.DONE, 3)


async def test_a_tool_waits_for_the_thread_of_a_call_before_it() -> None:
    """A query that took a little too long is over a moment later, and nothing is lost."""
    order = []

    class Desk(Hanging):
        @tool(timeout_s=0.01)
        def slow(self) -> None:
            self.block()
            order.append("slow ends")

        @tool
        def look(self) -> str:
            order.append("look")
            return "a door"

    class Releasing(Recorded):
        async def act(self, messages: list[dict[str, Any]], tools: Any, turn: int) -> Any:
            if turn == 1:
                environment.release.set()
            return await super().act(messages, tools, turn)

    environment = Desk()
    actor = Releasing(Reply(tool_calls=[("slow", {})]), Reply(tool_calls=[("look", {})]), "bye")
    await play(environment, actor, Episode(scenario=Scenario(id="s")), step_timeout_s=30)

    assert order == ["slow ends", "look"]
    assert actor.sent[-1]["content"] == "a door"


async def test_an_environment_around_another_lets_that_one_time_its_tools() -> None:
    """One that counts or logs must not turn a slow tool, which is answered, into a failure."""

    class Around(Environment[Scenario]):
        def __init__(self) -> None:
            self.inner = Hanging()
            self.tools = self.inner.tools
            self.reset = self.inner.reset

        async def reset(self, scenario: Scenario) -> str:
            raise NotImplementedError

        async def step(self, action: Action) -> StepResult:
            raise NotImplementedError

        async def step_within(self, action: Action, timeout_s: float | None) -> StepResult:
            return await self.inner.step_within(action, timeout_s)

    actor = Recorded(Reply(tool_calls=[("wait", {})]), "bye")
    await play(Around(), actor, Episode(scenario=Scenario(id="s")), step_timeout_s=0.01)

    assert actor.sent[-1]["content"] == "wait took longer than 0.01 s"


async def test_a_tools_own_limit_holds_before_the_rollouts() -> None:
    """Some tools take minutes, and some should never take a second."""
    environment = Hanging()
    environment.tool_timeout_s = 0.02

    assert await answers(environment, ("impatient", {}), ("patient", {})) == [
        "impatient took longer than 0.01 s",
        "there",
    ]


async def test_a_reply_hook_that_hangs_is_cut_short_like_any_step() -> None:
    """It is not a tool, so nobody answers for it."""

    class Simulated(Hanging):
        async def on_reply(self, action: Action) -> StepResult:
            await asyncio.Event().wait()
            return StepResult()

    with pytest.raises(TimeoutError, match=r"step\(\) took longer than 0.01 s"):
        await play(Simulated(), Recorded("hi"), Episode(scenario=Scenario(id="s")), step_timeout_s=0.01)


async def test_a_reply_without_calls_ends_the_episode_with_its_text() -> None:
    """It is how a model says that it is done."""
    assert await Shop().step(reply(text="It is 20.")) == StepResult(done=True, outcome="It is 20.")


async def test_what_a_reply_without_calls_does_can_be_changed() -> None:
    """A simulated user answers it."""

    class Talking(Shop):
        async def on_reply(self, action: Action) -> StepResult:
            return StepResult(f"you said {action.text}")

    assert await Talking().step(reply(text="hm")) == StepResult("you said hm")


class Exam(World):
    def __init__(self) -> None:
        self.calls: list[str] = []

    @tool(final=True)
    def submit(self, answer: int) -> dict[str, int]:
        self.calls.append("submit")
        if answer < 0:
            raise ValueError("not negative")
        return {"answer": answer}

    @tool
    def look(self) -> str:
        self.calls.append("look")
        return "a sum"


async def test_a_final_tool_ends_the_episode_with_what_it_returned() -> None:
    """The outcome is data, not text to be parsed again."""
    assert await Exam().step(reply(("submit", {"answer": 3}))) == StepResult(
        [{"role": "tool", "tool_call_id": "call_1_0", "content": '{"answer": 3}'}], done=True, outcome={"answer": 3}
    )


@pytest.mark.parametrize("arguments", [{"answer": -1}, {"answer": "x"}, "{"])
async def test_a_final_tool_that_failed_ends_nothing(arguments: Any) -> None:
    """The model may try again."""
    result = await Exam().step(reply(("submit", arguments)))

    assert (result.done, result.outcome, result.metrics) == (False, None, {"tool_errors": 1})


async def test_calls_after_the_end_are_answered_and_not_run() -> None:
    """Each call has an answer, and none has an effect on what is over."""
    environment = Exam()
    result = await environment.step(
        reply(("look", {}), ("submit", {"answer": 1}), ("submit", {"answer": 2}), ("look", {}))
    )

    assert environment.calls == ["look", "submit"]
    assert [message["content"] for message in result.messages] == [
        "a sum",
        '{"answer": 1}',
        *["not run: the episode is over"] * 2,
    ]
    assert (result.done, result.outcome, result.metrics) == (True, {"answer": 1}, {})


async def test_a_tool_can_pay_log_and_end() -> None:
    """A world knows what a move is worth."""

    class Game(World):
        @tool(parallel=True)
        def move(self, to: str) -> ToolResult:
            return ToolResult(f"at {to}", reward=0.5, metrics={"moves": 1, "won": to == "goal"}, done=to == "goal")

        @tool(final=True)
        def resign(self) -> ToolResult:
            return ToolResult("you lost", reward=-1, outcome={"lost": True})

        @tool(final=True)
        def leave(self) -> ToolResult:
            return ToolResult("gone")

    moved = await Game().step(reply(("move", {"to": "a"}), ("move", {"to": "goal"})))

    assert (moved.reward, moved.metrics, moved.done) == (1.0, {"moves": 2, "won": True}, True)
    assert [message["content"] for message in moved.messages] == ["at a", "at goal"]
    assert await Game().step(reply(("resign", {}))) == StepResult(
        [{"role": "tool", "tool_call_id": "call_1_0", "content": "you lost"}],
        done=True, reward=-1, outcome={"lost": True},
    )  # fmt: skip
    assert (await Game().step(reply(("leave", {})))).outcome == "gone"


async def test_no_call_of_a_reply_that_was_cut_off_is_run() -> None:
    """What is whole of it may be half of what was meant; where it does not end the episode, the model is told."""
    environment = Exam()
    result = await environment.step(reply(("look", {}), ("submit", '{"answer": 1'), finish_reason="length"))

    assert environment.calls == []
    assert [message["content"] for message in result.messages] == [
        "not run: the reply was cut off at its token limit"
    ] * 2
    assert result.metrics == {"tool_errors": 2}


async def test_a_method_that_returns_a_coroutine_is_awaited() -> None:
    """A decorator that is not async itself hides that the method is."""

    class Desk(World):
        @tool
        def look(self) -> Any:
            async def later() -> str:
                return "there"

            return later()

    assert await answers(Desk(), ("look", {})) == ["there"]


async def test_a_tool_is_still_a_method() -> None:
    """It is tested and called by other tools like any other."""
    assert Shop().price("lamp", count=2) == "lamp 2"


async def test_many_problems_are_told_in_short() -> None:
    """An answer to each would use up the context, by no doing of the model's."""
    many = {"type": "object", "properties": {"xs": {"type": "array", "items": {"type": "integer"}}}}

    class Desk(World):
        @tool
        def add(self, xs: list[int]) -> int:
            return sum(xs)

        @tool(schema=many)
        def count(self, xs):
            return len(xs)

    arguments = {"xs": ["x" * 500] * 100}
    told = await answers(Desk(), ("add", arguments), ("count", arguments), ("count", {"xs": "x" * 10_000}))

    assert [text.count("argument 'xs.") for text in told] == [5, 5, 0]
    assert [text.endswith("; and 95 more") for text in told] == [True, True, False]
    assert max(map(len, told)) < 2000


async def test_a_failure_of_an_arguments_own_type_is_answered_like_the_tools() -> None:
    """The model sent what the type does not know; whose code looked it up makes no difference."""

    @dataclasses.dataclass
    class Length:
        unit: str

        def __post_init__(self) -> None:
            self.metres = {"m": 1.0, "km": 1000.0}[self.unit]

    class Desk(World):
        @tool
        def walk(self, length: Length) -> float:
            return length.metres

    assert await answers(Desk(), ("walk", {"length": {"unit": "mile"}})) == ["KeyError: 'mile'"]


async def test_a_tool_that_an_attribute_hides_is_named() -> None:
    """Called, it would raise a TypeError, which the model would be told for the whole run."""

    class Desk(Shop):
        async def reset(self, scenario: Scenario) -> str:
            self.price = 20  # type: ignore[assignment,method-assign]  # the mistake
            return "go"

    environment = Desk()
    await environment.reset(Scenario(id="s"))

    with pytest.raises(EnvironmentContractError, match=r"self\.price is a tool, and became 20"):
        await environment.step(reply(("price", {"item": "lamp"})))


async def test_an_unknown_argument_is_answered_with_the_names_that_the_model_knows() -> None:
    """An alias is what the schema says."""

    class Desk(World):
        @tool
        def send(self, sender: str = Field(alias="from")) -> str:
            return sender

    assert await answers(Desk(), ("send", {"from": "ann"}), ("send", {"from": "ann", "to": "ben"})) == [
        "ann",
        "there is no argument 'to', the arguments are: 'from'",
    ]


async def test_the_rewards_of_one_turn_add_up_whatever_their_type() -> None:
    """A Decimal and a float have no sum of their own."""

    class Game(World):
        @tool
        def move(self, exact: bool) -> ToolResult:
            return ToolResult("", reward=Decimal("0.5") if exact else 0.25)

    assert (await Game().step(reply(("move", {"exact": True}), ("move", {"exact": False})))).reward == 0.75


async def test_an_environments_own_limit_holds_before_the_rollouts() -> None:
    """Who wrote the tools knows how long they take."""

    class Desk(Hanging):
        tool_timeout_s = 0.01

    actor = Recorded(Reply(tool_calls=[("wait", {})]), "bye")
    await play(Desk(), actor, Episode(scenario=Scenario(id="s")), step_timeout_s=30)

    assert actor.sent[-1]["content"] == "wait took longer than 0.01 s"
