"""What a model would know: the values in a scenario, and those that the environment has mentioned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

__all__ = ["MAX_WORDS", "Field", "fields_in", "fields_of_observations", "words_in"]

Field: TypeAlias = "tuple[str, str | int | float]"
"""A short text or a number, with the name it goes by; "" where it has none."""

MAX_WORDS = 60
_WORD = re.compile(r"[^\W_][\w./:@'-]{0,40}")
_MAX_CHARS = 200
_MAX_DEPTH = 8
_OBSERVATIONS = 4


def fields_in(value: Any, name: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the short texts and the numbers in `value`, at any depth that data has; those in a list go by its name.

    >>> list(fields_in({"item": "bolt", "bins": [{"count": 3}], "is_new": True}))
    [('item', 'bolt'), ('count', 3)]
    """
    if isinstance(value, str):
        if 0 < len(value) <= _MAX_CHARS:
            yield name, value
    elif isinstance(value, int | float):
        if not isinstance(value, bool):
            yield name, value
    elif depth < _MAX_DEPTH:
        for key, item in _items_of(value, name):
            yield from fields_in(item, key, depth + 1)


def fields_of_observations(messages: Sequence[Mapping[str, Any]]) -> list[Field]:
    """Return what is in the last messages of the environment that are JSON, as the answers of tools often are."""
    found: list[Field] = []
    for text in _said(messages)[-_OBSERVATIONS:]:
        if text.lstrip()[:1] in {"{", "["}:
            try:
                found += fields_in(json.loads(text))
            except (ValueError, RecursionError):
                continue
    return found[-MAX_WORDS:]


def words_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the last words that the environment said: what it mentions is often what it understands."""
    return _WORD.findall(" ".join(_said(messages[-3:]))[-4000:])[-MAX_WORDS:]


def _said(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        message["content"]
        for message in messages
        if message.get("role") != "assistant" and isinstance(message.get("content"), str)
    ]


def _items_of(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in list(value.items())[:MAX_WORDS]]
    if isinstance(value, list | tuple):
        return [(name, item) for item in value[:MAX_WORDS]]
    if isinstance(value, BaseModel):
        return [(key, getattr(value, key)) for key in type(value).model_fields]
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []
