"""Finding JSON in text that is not only JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["DuplicateKeyError", "FoundJson", "find_json"]

# An object, or a list of objects: a "[1]" in prose is no answer.
_START = re.compile(r'\{\s*"|\[\s*\{')
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


class DuplicateKeyError(ValueError):
    """A JSON object says two things under one name; which one was meant cannot be known."""


@dataclass(frozen=True, slots=True)
class FoundJson:
    """The JSON in a text.

    Attributes:
        values: The JSON objects and lists of objects, outermost only.
        rest: The text around them.
    """

    values: list[Any]
    rest: str


@dataclass(frozen=True, slots=True)
class _Placed:
    value: Any
    start: int
    end: int


def find_json(text: str) -> FoundJson:
    r"""Return the JSON objects and lists of objects in `text` that do not stand inside a thought.

    Fences and prose around them are passed over. What stands before a closing `</think>`, or after an opening one that
    is never closed, is a draft and no answer; a tag that stands inside of a JSON string is just text.

    Raises:
        DuplicateKeyError: One of them has the same name twice.

    >>> find_json('<think>{"a": 1}</think> Here:\n{"a": 2} Done.')
    FoundJson(values=[{'a': 2}], rest=' Here:\n Done.')
    """
    placed, at = [], 0
    while match := _START.search(text, at):
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except DuplicateKeyError:
            raise
        except (ValueError, RecursionError):  # prose, cut off, or nested deeper than any answer is
            at = match.start() + 1
            continue
        placed.append(_Placed(value, match.start(), end))
        at = end
    first, last = _answer_span(text, placed)
    placed = [found for found in placed if first <= found.start and found.end <= last]
    starts = [first, *(found.end for found in placed)]
    ends = [*(found.start for found in placed), last]
    rest = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return FoundJson([found.value for found in placed], rest)


def _answer_span(text: str, placed: list[_Placed]) -> tuple[int, int]:
    """Return from where to where the text is no thought."""
    first, last = 0, len(text)
    for tag in _THOUGHT.finditer(text):
        if any(found.start <= tag.start() < found.end for found in placed):
            continue
        if tag[1]:
            first, last = tag.end(), len(text)
        else:
            last = min(last, tag.start())
    return first, last


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise DuplicateKeyError(f"a JSON object has one name twice: {[name for name, _ in pairs]}")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
