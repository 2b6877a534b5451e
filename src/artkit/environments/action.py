"""What the model did in one turn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage

__all__ = ["Action", "ToolCall", "parse_arguments"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of the model.

    Attributes:
        id: The server's id of the call; the answer carries the same.
        name: The tool's name, as the model wrote it.
        arguments: The parsed arguments; empty where they could not be parsed.
        error: Why the arguments could not be parsed, or None. Bad JSON is a value here, not an exception.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class Action:
    """The model's reply in one turn.

    Attributes:
        message: The server's own message object.
        finish_reason: Why generation stopped: "stop", "length", "tool_calls", …
    """

    message: ChatCompletionMessage
    finish_reason: str = "stop"

    @property
    def text(self) -> str:
        """The text of the reply; empty where there is none."""
        return self.message.content or ""

    @cached_property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, in order."""
        calls = self.message.tool_calls or ()
        return tuple(_parse(call) for call in calls)


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    r"""Return the arguments that a model wrote, and None; or none, and what is wrong with them.

    No text at all is no arguments.

    >>> parse_arguments('{"a": 1}')
    ({'a': 1}, None)
    >>> parse_arguments('"{\\"a\\": 1}"')
    ({}, 'arguments must be an object, got string')
    """
    if not text.strip():
        return {}, None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return {}, f"arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"arguments must be an object, got {_JSON_NAMES.get(type(value), 'null')}"
    return value, None


def _parse(call: Any) -> ToolCall:
    function = getattr(call, "function", None)
    if function is None:
        return ToolCall(call.id, "", {}, f"a call of type {call.type!r} is not a function call")
    arguments, error = parse_arguments(function.arguments or "")
    return ToolCall(call.id, function.name or "", arguments, error)


def _refuse(constant: str) -> NoReturn:
    # Python reads NaN and Infinity; JSON has neither, and the server's template may stumble over them.
    raise ValueError(f"{constant} is no JSON value")


_JSON_NAMES = {str: "string", list: "array", int: "number", float: "number", bool: "boolean"}
