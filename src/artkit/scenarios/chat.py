"""Chat prompts in the shapes that data sets have them in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artkit.scenarios.jsonl_lines import decode

__all__ = ["as_messages", "from_text", "without_nulls"]

# Who speaks, in the names of the ShareGPT format.
_ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


def as_messages(prompt: Any, *, is_columnar: bool) -> Any:
    """Return a prompt as messages with roles, where it is a conversation; what is none is returned as it is.

    Args:
        prompt: A list of messages, of ShareGPT turns (`{"from": "human", "value": "…"}`), or an object of equally long
            columns (`{"role": […], "content": […]}`), which is how some versions of datasets give a list of objects; a
            list may be JSON text.
        is_columnar: Whether it comes from Arrow; see `without_nulls`.
    """
    if isinstance(prompt, str):
        # Reading every text as JSON would take longer than all the rest.
        turns: Any = from_text(prompt) if prompt.lstrip().startswith("[") else None
        return [_message(turn, is_columnar=False) for turn in turns] if _are_turns(turns) else prompt
    if isinstance(prompt, Mapping) and prompt and all(isinstance(column, list) for column in prompt.values()):
        if len({len(column) for column in prompt.values()}) > 1:
            return prompt
        prompt = [dict(zip(prompt, turn, strict=True)) for turn in zip(*prompt.values(), strict=True)]
    if not isinstance(prompt, list | tuple):
        return prompt
    return [_message(turn, is_columnar=is_columnar) for turn in prompt]


def _are_turns(value: Any) -> bool:
    """Whether JSON text is a conversation: any other JSON is a text that the prompt consists of."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(turn, Mapping) and (isinstance(turn.get("role"), str) or turn.get("from") in _ROLES)
            for turn in value
        )
    )


def _message(turn: Any, *, is_columnar: bool) -> Any:
    if not isinstance(turn, Mapping):
        return turn
    if turn.get("role") is None and turn.get("from") in _ROLES:
        return {"role": _ROLES[turn["from"]], "content": turn.get("value")}
    if not is_columnar:
        return turn
    # A turn that only calls tools says so with a null.
    return {key: without_nulls(item) for key, item in turn.items() if item is not None or key == "content"}


def without_nulls(value: Any) -> Any:
    """Return `value` without the keys whose value is null, at any depth.

    Arrow gives every object of a column the same keys and fills up with nulls. Sent to a server, `"tool_calls": null`
    or a tool's parameter that is null is an error.
    """
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    return value


def from_text(value: Any) -> Any:
    """Return what JSON text holds: columns of one type keep tools and metadata so. What is no JSON stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return decode(value)
    except (ValueError, RecursionError):
        return value
