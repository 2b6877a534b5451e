"""Messages as they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from artkit.environments.messages import as_messages, as_sent, as_tools
from artkit.errors import EnvironmentContractError
from artkit.testing import Reply, choice

PICTURE = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]


def sent(reply: Reply) -> dict[str, Any]:
    return as_sent(choice(reply).message)


def test_a_text_is_one_user_message() -> None:
    """Most environments say one thing at a time."""
    assert as_messages("go", "reset()") == [{"role": "user", "content": "go"}]


@pytest.mark.parametrize("nothing", ["", (), []])
def test_nothing_is_no_message(nothing: Any) -> None:
    """An empty user message would only puzzle the model."""
    assert as_messages(nothing, "step()") == []


def test_blocks_are_kept_as_they_are() -> None:
    """A picture that became text is a picture lost."""
    message = {"role": "tool", "tool_call_id": "1", "content": PICTURE}

    assert as_messages([message], "step()") == [message]


def test_half_a_character_is_replaced() -> None:
    """Tools cut their output anywhere; a lone surrogate can't be sent, the rest of the text can."""
    messages = as_messages([{"role": "tool", "tool_call_id": "1", "content": "cut \ud83d"}], "step()")

    assert messages == [{"role": "tool", "tool_call_id": "1", "content": "cut \ufffd"}]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "reset() gave None for messages"),
        (3, "reset() gave 3 for messages"),
        ({"role": "user", "content": "x"}, "reset() gave {'content': 'x', 'role': 'user'} for messages"),
        (["x"], "reset() gave 'x' as a message"),
        ([{"content": "x"}], "reset() gave {'content': 'x'} as a message"),
        ([{"role": "user", "content": b"x"}], "reset() gave {'content': b'x', 'role': 'user'}, which cannot be sent"),
        ([{"role": "user", "content": float("nan")}], "reset() gave {'content': nan, 'role': 'user'}, which cannot"),
    ],
)
def test_what_is_no_message_is_refused_where_it_was_given(value: Any, problem: str) -> None:
    """Found out in the client, it would look like a failure of the server."""
    with pytest.raises(EnvironmentContractError) as refused:
        as_messages(value, "reset()")

    assert refused.value.problem.startswith(problem)


@pytest.mark.parametrize("value", [None, "look", [None], [{"function": {"name": print}}]])
def test_what_is_no_list_of_tools_is_refused(value: Any) -> None:
    """Likewise."""
    with pytest.raises(EnvironmentContractError, match=r"tools\(\) gave"):
        as_tools(value)


def test_a_reply_goes_back_with_its_calls_in_order() -> None:
    """Tool calls that vanish from the context are context that was never trained on."""
    calls = [("look", {"at": "door"}), ("wait", {})]

    assert sent(Reply("I look.", tool_calls=calls)) == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "call_1_0", "type": "function", "function": {"name": "look", "arguments": '{"at": "door"}'}},
            {"id": "call_1_1", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
        ],
    }


@given(st.text())
def test_arguments_that_are_sent_are_always_an_object(text: str) -> None:
    """A server's template that parses them would refuse every further request of the episode."""
    [call] = sent(Reply(tool_calls=[("f", text)]))["tool_calls"]

    assert isinstance(json.loads(call["function"]["arguments"]), dict)


@pytest.mark.parametrize("text", ["{a:1}", '"{}"', '{"a": NaN}', "[1]"])
def test_arguments_that_are_no_object_are_quoted(text: str) -> None:
    """The model still sees what it wrote."""
    [call] = sent(Reply(tool_calls=[("f", text)]))["tool_calls"]

    assert json.loads(call["function"]["arguments"]) == {"invalid_arguments": text}


def test_a_reply_without_content_goes_back_with_an_empty_text() -> None:
    """Reasoning alone, or no key at all: some servers refuse a message whose content is null."""
    message = ChatCompletionMessage.construct(role="assistant", reasoning_content="hm")

    assert as_sent(message) == {"role": "assistant", "content": ""}


def test_half_a_character_of_the_model_is_replaced() -> None:
    """It samples bytes; the request that carries them back must still be UTF-8."""
    assert sent(Reply("half \ud83d"))["content"] == "half \ufffd"


def test_a_refused_message_is_shown_in_short() -> None:
    """Its picture of megabytes would go into every log and recording of the failure."""
    with pytest.raises(EnvironmentContractError) as refused:
        as_messages([{"role": "user", "content": [{"type": "text", "text": "x" * 100_000}, b"x" * 100_000]}], "reset()")

    assert len(str(refused.value)) < 500


def test_a_message_that_is_changed_afterwards_was_sent_as_it_was() -> None:
    """An environment that keeps one list of blocks and adds to it would rewrite its own past."""
    blocks = [{"type": "text", "text": "one"}]
    messages = as_messages([{"role": "user", "content": blocks}], "step()")
    blocks.append({"type": "text", "text": "two"})
    blocks[0]["text"] = "changed"

    assert messages == [{"role": "user", "content": [{"type": "text", "text": "one"}]}]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("functions.look", "functions_look"),
        (" look\n", "_look_"),
        ('look" />', "look____"),
        ("", "unnamed"),
        ("größe\ud83d", "gr__e_"),
        ("x" * 100, "x" * 64),
        ("fs.look", "fs.look"),
    ],
)
def test_the_name_that_is_sent_is_one_that_a_tool_can_have(said: str, name: str) -> None:
    """Servers check it as they check the tools on offer; one of those is taken as it is."""
    tools = [{"type": "function", "function": {"name": "fs.look"}}, {"type": "web_search"}]
    [call] = as_sent(choice(Reply(tool_calls=[(said, "{}")])).message, tools)["tool_calls"]

    assert call["function"]["name"] == name


def test_a_reply_in_blocks_goes_back_as_its_text() -> None:
    """Some servers send a list, and take none back."""
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]
    message = ChatCompletionMessage.construct(role="assistant", content=blocks)

    assert as_sent(message) == {"role": "assistant", "content": "hello"}
