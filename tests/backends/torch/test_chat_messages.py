"""Messages and tools on their way to a chat template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artkit.backends.torch.chat_messages import template_message, template_tools


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ('{"at": "door"}', {"at": "door"}),
        ("{}", {}),
        ("", {}),
        (None, {}),
        ({"at": 1}, {"at": 1}),
        ("[1]", "[1]"),
        ('{"at":', '{"at":'),
        ('"door"', '"door"'),
    ],
)
def test_arguments_that_are_an_objects_text_become_the_object(written: object, rendered: object) -> None:
    """A template writes them as JSON itself, and would write a text within quotes."""
    call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": written}}

    message = template_message({"role": "assistant", "content": None, "tool_calls": [call]}, "messages[0]")

    function = {"name": "look", "arguments": rendered}
    assert message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }


@pytest.mark.parametrize(
    ("message", "rendered"),
    [
        (
            {"role": "tool", "tool_call_id": "call_0", "name": "look", "content": [{"type": "text", "text": "a"}]},
            {"role": "tool", "tool_call_id": "call_0", "name": "look", "content": "a"},
        ),
        (
            {"role": "assistant", "content": "a", "tool_calls": [], "refusal": None, "function_call": None},
            {"role": "assistant", "content": "a"},
        ),
    ],
)
def test_what_a_model_reads_is_kept_and_nothing_else(message: dict[str, Any], rendered: dict[str, Any]) -> None:
    """OpenAI's client sends fields that only its servers know."""
    assert template_message(message, "messages[0]") == rendered


def test_a_tool_reads_the_same_however_its_fields_were_ordered() -> None:
    """ART's objects order them anew, so that a demonstration and a request would differ."""
    parameters = {"type": "object", "properties": {"b": {}, "a": {}}}
    tools = [
        {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": parameters}, "x": 1},
        {"function": {"parameters": parameters, "description": "Look.", "name": "look"}, "x": 1, "type": "function"},
    ]

    first, second = template_tools(tools)

    assert json.dumps(first) == json.dumps(second) == json.dumps(tools[0])
    assert template_tools(None) == template_tools([]) == []
