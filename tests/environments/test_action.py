"""What the model did, as its environment sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from artkit.environments import Action, ToolCall
from artkit.environments.action import parse_arguments
from artkit.testing import Reply, choice

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=10,
)


def action(reply: Reply | str) -> Action:
    said = choice(reply)
    return Action(said.message, said.finish_reason)


def test_tool_calls_are_parsed_in_order_under_their_ids() -> None:
    """Parallel calls are answered one by one, each under the id of its call."""
    calls = action(Reply(tool_calls=[("look", {"at": "door"}), ("wait", "")])).tool_calls

    assert calls == (ToolCall("call_1_0", "look", {"at": "door"}), ToolCall("call_1_1", "wait", {}))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (json.dumps(json.dumps({"a": 1})), "arguments must be an object, got string"),
        ("[1]", "arguments must be an object, got array"),
        ("3", "arguments must be an object, got number"),
        ("true", "arguments must be an object, got boolean"),
        ("null", "arguments must be an object, got null"),
        ("{a:1}", "arguments are not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ('{"a": NaN}', "arguments are not valid JSON: NaN is no JSON value"),
        ('{"a": -1e400}', "arguments are not valid JSON: -1e400 is too large a number"),
        ("[" * 100_000, "arguments are not valid JSON: "),
        ("1" * 5000, "arguments are not valid JSON: "),
    ],
    ids=[
        "encoded twice",
        "array",
        "number",
        "boolean",
        "null",
        "no JSON",
        "NaN",
        "infinite",
        "nested without end",
        "huge number",
    ],
)
def test_bad_arguments_are_a_value_and_no_exception(text: str, error: str) -> None:
    """A model writes anything; the environment answers it and the episode goes on."""
    [call] = action(Reply(tool_calls=[("f", text)])).tool_calls

    assert call.arguments == {}
    assert call.error is not None
    assert call.error.startswith(error)


@given(JSON)
def test_arguments_are_what_the_model_wrote_or_an_error(value: Any) -> None:
    """Nothing is guessed: only an object is arguments."""
    arguments, error = parse_arguments(json.dumps(value))

    assert (arguments, error is None) == ((value, True) if isinstance(value, dict) else ({}, False))


def test_a_call_that_is_no_function_call_is_a_value_too() -> None:
    """Servers know other kinds of calls; the model may try one."""
    message = ChatCompletionMessage.model_validate(
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}
    )

    assert Action(message).tool_calls == (ToolCall("1", "", {}, "a call of type 'custom' is not a function call"),)


def test_a_reply_without_content_has_no_text() -> None:
    """Some servers send reasoning alone, or leave the key out."""
    message = ChatCompletionMessage.construct(role="assistant", reasoning_content="hm")

    assert (Action(message).text, Action(message).tool_calls) == ("", ())


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["a", "a", "a"], ["a", "a_1", "a_2"]),
        (["call_1", None], ["call_1", "call_1_1"]),
        (["a_1", "a", "a"], ["a_1", "a", "a_2"]),
        ([5, ""], ["5", "call_1"]),
    ],
)
def test_each_call_of_a_reply_has_an_id_of_its_own(given: list[Any], made: list[str]) -> None:
    """Models repeat them and servers leave them out; two answers under one id are refused by many servers."""
    calls = [{"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for call_id in given]
    message = ChatCompletionMessage.construct(role="assistant", tool_calls=calls)

    assert [call.id for call in Action(message).tool_calls] == made


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a "}, {"type": "text", "text": "b"}],
            "a b",
        ),
        ([{"type": "text", "text": None}, "c"], ""),
        ([], ""),
    ],
)
def test_the_text_of_a_reply_in_blocks_is_that_of_its_blocks(content: Any, text: str) -> None:
    """Some servers send the reasoning and the text as a list."""
    assert Action(ChatCompletionMessage.construct(role="assistant", content=content)).text == text
