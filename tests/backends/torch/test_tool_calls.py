"""Reading the calls of a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.backends.torch.tool_calls import WrittenCall, parse_calls

CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "door"}}\n</tool_call>'
LOOK = WrittenCall("look", '{"at": "door"}')


def block(value: Any) -> str:
    return f"<tool_call>\n{json.dumps(value, ensure_ascii=False)}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("Nothing to call.\n", "Nothing to call.\n", []),
        ("", "", []),
        (CALL, None, [LOOK]),
        (f"I look.\n{CALL}", "I look.", [LOOK]),
        (f"I look.\n\n{CALL}", "I look.\n", [LOOK]),
        (f"{CALL}\n{CALL}", None, [LOOK, LOOK]),
        (f"{CALL} and so on", None, [LOOK]),
        ('<tool_call>{"name":"look","arguments":{"at":"door"}}</tool_call>', None, [LOOK]),
        (block({"name": "look", "arguments": "{}"}), None, [WrittenCall("look", '"{}"')]),
        (
            block({"name": "say", "arguments": {"é": "</tool_call>"}}),
            None,
            [WrittenCall("say", '{"é": "</tool_call>"}')],
        ),
    ],
)
def test_calls_are_taken_out_of_a_reply(text: str, content: str | None, calls: list[WrittenCall]) -> None:
    """What stands before them is the content, as vLLM has it."""
    assert parse_calls(text, is_whole=True) == (content, calls)
    assert parse_calls(text, is_whole=False) == (content, calls)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\nlook at the door\n</tool_call>",
        '<tool_call>\n{"name": "look", "arguments": {"at": }}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"at": NaN}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"at": 1e999}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"at": "\\ud800"}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {}} {}\n</tool_call>',
        block({"arguments": {}}),
        block({"name": "look"}),
        block({"name": "", "arguments": {}}),
        block({"name": ["look"], "arguments": {}}),
        block(["look", {}]),
        f"<tool_call>{'[' * 100_000}</tool_call>",
        "</tool_call>",
        "<tool_call>",
    ],
)
def test_a_block_that_is_no_call_stays_text(text: str) -> None:
    """An environment can say what was wrong with it only if it sees it."""
    assert parse_calls(text, is_whole=True) == (text, [])
    assert parse_calls(f"{text}\n{CALL}", is_whole=True) == (text, [LOOK])


def test_a_broken_block_behind_a_call_stays_too() -> None:
    """The call before it is whole, and was meant."""
    assert parse_calls(f"I look.\n{CALL}<tool_call>{{</tool_call>{CALL}", is_whole=True) == (
        "I look.<tool_call>{</tool_call>",
        [LOOK, LOOK],
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_end_marker_may_be_missing_where_the_reply_ended_by_itself(end: str) -> None:
    """The model said that it is done; of a reply that was cut off, nobody knows what was to come."""
    open_call = CALL.removesuffix("\n</tool_call>") + end

    assert parse_calls(open_call, is_whole=True) == (None, [LOOK])
    assert parse_calls(open_call, is_whole=False) == (open_call, [])


@given(cut=st.integers(0, len(f"I look.\n{CALL}") - 1))
def test_half_a_call_is_never_a_call(cut: int) -> None:
    """Its arguments would be those of a call that the model did not make."""
    text = f"I look.\n{CALL}"[:cut]

    assert parse_calls(text, is_whole=False) == (text, [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(name=st.text(min_size=1), arguments=st.dictionaries(st.text(), json_values, max_size=3))
def test_whatever_arguments_are_written_are_read(name: str, arguments: dict[str, Any]) -> None:
    """Markers within a string among them."""
    content, (call,) = parse_calls(block({"name": name, "arguments": arguments}), is_whole=False)

    assert (content, call.name, json.loads(call.arguments)) == (None, name, arguments)
