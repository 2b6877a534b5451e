"""Messages as they are sent: checked where an environment gives them, made safe where a model wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.errors import EnvironmentContractError

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessage

__all__ = ["as_messages", "as_sent"]


def as_messages(value: object, source: str) -> list[dict[str, Any]]:
    """Return what `reset` or `step` gave as a list of messages; a str is one user message.

    Raises:
        EnvironmentContractError: It is neither a str nor a sequence of messages with a role.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, Sequence):
        raise EnvironmentContractError(
            f"{source} gave {value!r} for messages", "return a str or a list of messages with a role"
        )
    messages = []
    for message in value:
        if not isinstance(message, Mapping) or "role" not in message:
            raise EnvironmentContractError(
                f"{source} gave {message!r} as a message", 'return messages such as {"role": "user", "content": "…"}'
            )
        messages.append(dict(message))
    return messages


def as_sent(message: ChatCompletionMessage) -> dict[str, Any]:
    """Return a model's reply as the message that goes back to the server in the next request.

    The record keeps the server's own object; what is sent is always valid: content is a str, and tool arguments that
    are not a JSON object are replaced by one that quotes them, since some servers' templates parse what they get.
    """
    sent: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    if message.tool_calls:
        sent["tool_calls"] = [_sent_call(call) for call in message.tool_calls]
    return sent


def _sent_call(call: Any) -> dict[str, Any]:
    function = getattr(call, "function", None)
    name, arguments = (function.name, function.arguments) if function else ("", "")
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name or "", "arguments": _safe_arguments(arguments or "")},
    }


def _safe_arguments(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return text if isinstance(value, dict) else json.dumps({"invalid_arguments": text} if text.strip() else {})
