"""What the model did in one turn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pydantic import BaseModel

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage

__all__ = ["Action", "ToolCall", "WrittenCall", "parse_arguments", "with_ids", "written_calls", "written_text"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of the model.

    Attributes:
        id: The server's id of the call, or one made up where it gave none; the answer carries the same.
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
        message: The server's own message object; a copy with ids, where it gave its tool calls none.
        finish_reason: Why generation stopped: "stop", "length", "tool_calls", …
    """

    message: ChatCompletionMessage
    finish_reason: str = "stop"

    @property
    def text(self) -> str:
        """The text of the reply; empty where there is none."""
        return written_text(self.message)

    @cached_property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, in order."""
        return tuple(_parse(call) for call in written_calls(self.message))


class WrittenCall(NamedTuple):
    """A tool call as the model wrote it, with the texts that a request must have.

    Attributes:
        id: The server's; where there is none, or a call before has the same, one made of the call's place in its
            message: an answer needs an id of its own.
        name: The tool's name; "" where there is none.
        arguments: The text of the arguments; where a server sent an object for it, that object as JSON.
        kind: The kind of call, where it is no function call; else None.
    """

    id: str
    name: str
    arguments: str
    kind: str | None = None


def with_ids(message: ChatCompletionMessage, turn: int) -> ChatCompletionMessage:
    """Return `message` with an id for each of its tool calls that has none; as it is, where none is missing.

    Some servers refuse a conversation in which an id comes twice, so they are made of the turn; and Mistral's servers
    refuse what is not nine letters and digits.

    Args:
        message: What the server sent; it is not changed.
        turn: The reply's number in the episode, from 0.
    """
    calls: list[Any] = list(message.tool_calls or ())
    if all(_get(call, "id") for call in calls):
        return message
    for index, call in enumerate(calls):
        made = {"id": f"call{turn:03}{index:02}"}
        if isinstance(call, BaseModel) and not _get(call, "id"):
            calls[index] = call.model_copy(update=made)
        elif isinstance(call, Mapping) and not call.get("id"):
            calls[index] = {**call, **made}
    return message.model_copy(update={"tool_calls": calls})


def written_calls(message: ChatCompletionMessage) -> list[WrittenCall]:
    """Return the tool calls of `message`, in order; the OpenAI client checks nothing of what the server sent."""
    calls: dict[str, WrittenCall] = {}
    for index, call in enumerate(message.tool_calls or ()):
        written = _written(call, index)
        while written.id in calls:
            written = written._replace(id=f"{written.id}_{index}")
        calls[written.id] = written
    return list(calls.values())


def written_text(message: ChatCompletionMessage) -> str:
    """Return the text of `message`; of a list of blocks, which some servers send, the texts in it."""
    content: Any = message.content
    if not isinstance(content, list):
        return str(content or "")
    texts = [_get(block, "text") for block in content if _get(block, "type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


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
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return {}, f"arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"arguments must be an object, got {_JSON_NAMES.get(type(value), 'null')}"
    return value, None


def _written(call: Any, index: int) -> WrittenCall:
    call_id = str(_get(call, "id") or f"call_{index}")
    function = _get(call, "function")
    if function is None:
        return WrittenCall(call_id, "", "", str(_get(call, "type")))
    arguments = _get(function, "arguments")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return WrittenCall(call_id, str(_get(function, "name") or ""), text)


def _parse(call: WrittenCall) -> ToolCall:
    if call.kind is not None:
        return ToolCall(call.id, "", {}, f"a call of type {call.kind!r} is not a function call")
    arguments, error = parse_arguments(call.arguments)
    return ToolCall(call.id, call.name, arguments, error)


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _refuse(constant: str) -> NoReturn:
    # Python reads NaN and Infinity; JSON has neither, and the server's template may stumble over them.
    raise ValueError(f"{constant} is no JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):  # nobody wrote infinity, and JSON could not hold it
        raise ValueError(f"{digits} is too large a number")
    return number


_JSON_NAMES = {str: "string", list: "array", int: "number", float: "number", bool: "boolean"}
