"""The turns of a trajectory as rewards read them: what the model wrote, and what it was asked.

Not by ART's `messages()`: openpipe-art 0.5.23 validates every reply anew there, which takes it 10 ms each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from artkit.bridge import conversations

if TYPE_CHECKING:
    import art

__all__ = ["call_arguments", "prompt", "replies", "reply_text_of"]


def replies(trajectory: art.Trajectory) -> list[Any]:
    """Return the model's turns in the main conversation, in order: OpenAI's messages, as objects or as mappings.

    Raises:
        ValueError: ART captured something that is no chat.
    """
    return [_message(turn) for turn in conversations(trajectory)[0].turns if _is_reply(turn)]


def prompt(trajectory: art.Trajectory) -> list[Any]:
    """Return the messages before the model's first turn.

    Raises:
        ValueError: ART captured something that is no chat.
    """
    turns = conversations(trajectory)[0].turns
    return list(itertools.takewhile(lambda turn: not _is_reply(turn), turns))


def reply_text_of(message: Any) -> str:
    """Return the text of a message; a message that only calls tools has none, ""."""
    content = _get(message, "content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Iterable) else ()
    return "".join(str(_get(part, "text") or "") for part in parts)


def call_arguments(message: Any) -> list[str]:
    """Return the arguments of the tool calls in a message, as the model wrote them."""
    functions = [_get(call, "function") for call in _get(message, "tool_calls") or ()]
    return [str(_get(function, "arguments") or "") for function in functions]


def _is_reply(turn: Any) -> bool:
    return not isinstance(turn, Mapping) or turn.get("role") == "assistant"


def _message(turn: Any) -> Any:
    return turn if isinstance(turn, Mapping) else turn.message


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
