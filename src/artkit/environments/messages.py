"""Messages as they are sent: checked where an environment gives them, made safe where a model wrote them."""

from __future__ import annotations

import copy
import json
import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.bridge.safe_values import safe_json, safe_text
from artkit.environments.action import parse_arguments, written_calls, written_text
from artkit.errors import EnvironmentContractError
from artkit.secrets import scrub_known, scrub_values

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage

    from artkit.environments.action import WrittenCall

__all__ = ["as_messages", "as_sent", "as_tools"]

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""What OpenAI's server refuses in the name of a tool."""


def as_messages(value: object, source: str) -> list[dict[str, Any]]:
    """Return what `reset` or `step` gave as a list of messages; a str is one user message, an empty one none.

    The keys that this process is known to use are left out here, before a model reads them: what it was shown, what is
    recorded and what is trained on are the same.

    Raises:
        EnvironmentContractError: It is neither a str nor a sequence of messages with a role, or no JSON.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": scrub_known(safe_text(value))}] if value else []
    if not isinstance(value, Sequence):
        raise EnvironmentContractError(
            f"{source} gave {reprlib.repr(value)} for messages", "return a str or a list of messages with a role"
        )
    return scrub_values([_message(message, source) for message in value], known_only=True)


def as_tools(value: object) -> list[dict[str, Any]] | None:
    """Return what `tools` gave as a list of dicts; None where there are none.

    Raises:
        EnvironmentContractError: It is no sequence of mappings, or no JSON.
    """
    if not isinstance(value, Sequence) or not all(isinstance(tool, Mapping) for tool in value):
        raise EnvironmentContractError(
            f"tools() gave {reprlib.repr(value)}",
            'return a list of tools such as {"type": "function", "function": {…}}',
        )
    return [_sendable(tool, "tools()") for tool in value] or None


def as_sent(message: ChatCompletionMessage, tools: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return a model's reply as the message that goes back to the server in the next request.

    The record keeps the server's own object; what is sent is always valid: content is a str without lone surrogates,
    and tool arguments that are not a JSON object are replaced by one that quotes them, since some servers' templates
    parse what they get. The name of a tool that does not exist is made one that could be, since some check that too.

    Args:
        message: The reply.
        tools: The tools on offer, whose names are known to be taken.
    """
    sent: dict[str, Any] = {"role": "assistant", "content": safe_text(written_text(message))}
    if calls := written_calls(message):
        names = {function.get("name") for tool in tools or () if isinstance(function := tool.get("function"), Mapping)}
        sent["tool_calls"] = [_sent_call(call, names) for call in calls]
    return sent


def _message(message: object, source: str) -> dict[str, Any]:
    if not isinstance(message, Mapping) or "role" not in message:
        raise EnvironmentContractError(
            f"{source} gave {reprlib.repr(message)} as a message",
            'return messages such as {"role": "user", "content": "…"}',
        )
    return _sendable(message, source)


def _sendable(value: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a copy that can be sent; found out here, where it is known who made it.

    A whole copy, for what an environment goes on changing was sent as it was.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # half a character, from text that was cut: the rest of it is worth sending
        return dict(safe_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentContractError(
            f"{source} gave {reprlib.repr(value)}, which cannot be sent as JSON: {error}",
            "give plain dicts, lists, texts, numbers",
        ) from error
    return copy.deepcopy(dict(value))


def _sent_call(call: WrittenCall, names: Collection[object]) -> dict[str, Any]:
    name = call.name if call.name in names else _NO_NAME.sub("_", call.name)[:64] or "unnamed"
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": _safe_arguments(safe_text(call.arguments))},
    }


def _safe_arguments(text: str) -> str:
    if not text.strip():
        return "{}"
    _, error = parse_arguments(text)
    return text if error is None else json.dumps({"invalid_arguments": text})
