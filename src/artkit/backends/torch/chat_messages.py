"""Messages and tools as a chat template takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["template_message", "template_tools"]


def template_message(message: object, place: str) -> dict[str, Any]:
    """The role, text, tool calls and names of a message in OpenAI's shape; the rest says nothing to a model.

    Arguments of a call that are the JSON text of an object become that object, for templates write them as JSON
    themselves (vLLM does the same); none at all become an empty object, and other text stays as it is.

    Args:
        message: The message.
        place: What it is called in an error, such as `messages[0]`.

    Raises:
        ValueError: It is none, or holds what no template could be given; the text begins with the place.
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError(f"{place} must be an object with a role")
    if message.get("function_call"):
        raise ValueError(f"{place}.function_call is not supported: send tool_calls")
    role = "system" if message["role"] == "developer" else message["role"]
    found: dict[str, Any] = {"role": role, "content": _text(message.get("content"), place)}
    if calls := message.get("tool_calls"):
        if role != "assistant" or not isinstance(calls, list | tuple):
            raise ValueError(f"{place}.tool_calls must be a list, in a message of the assistant")
        found["tool_calls"] = [_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)]
    for name in ("tool_call_id", "name"):
        if (value := message.get(name)) is not None:
            if not isinstance(value, str):
                raise ValueError(f"{place}.{name} must be a string")
            found[name] = value
    return found


def template_tools(tools: object) -> list[dict[str, Any]]:
    """Tools with their fields in one order, that of OpenAI's reference.

    A template writes a tool as it comes, and ART's objects order its fields anew: what was demonstrated and what is
    asked for later would be two prompts.

    Args:
        tools: In OpenAI's shape; None is none.

    Raises:
        ValueError: They are not.
    """
    if tools is not None and not isinstance(tools, list | tuple):
        raise ValueError(f"tools={tools!r} is not a list")
    return [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools or ())]


def _tool(tool: object, place: str) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, Mapping) and tool.get("type") == "function" else None
    if not isinstance(tool, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError(f'{place} is not {{"type": "function", "function": {{"name": …}}}}')
    return _ordered(tool, ("type", "function")) | {
        "function": _ordered(function, ("name", "description", "parameters", "strict"))
    }


def _ordered(value: Mapping[str, Any], first: Sequence[str]) -> dict[str, Any]:
    return {name: value[name] for name in (*first, *value) if name in value}


def _text(content: object, place: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    raise ValueError(f"{place}.content must be text: nothing else is supported")


def _call(call: object, place: str) -> dict[str, Any]:
    if not isinstance(call, Mapping) or call.get("type", "function") != "function":
        raise ValueError(f"{place} must be a call of a function")
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError(f"{place}.function must be an object with a name")
    found: dict[str, Any] = {
        "type": "function",
        "function": {"name": function["name"], "arguments": _arguments(function.get("arguments"))},
    }
    if isinstance(call.get("id"), str):
        found["id"] = call["id"]
    return found


def _arguments(arguments: object) -> object:
    if not arguments:
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments
