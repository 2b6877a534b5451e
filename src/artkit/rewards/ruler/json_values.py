"""Finding JSON in text that is not only JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["BrokenJsonError", "DuplicateKeyError", "FoundJson", "find_json"]

# An object, or a list of objects: a "[1]" in prose is no answer.
_START = re.compile(r'\{\s*"|\[\s*\{')
_THOUGHT = re.compile(
    r"<(/?)(?:think|thinking|thought|reasoning)(?:\s[^<>]{0,200})?>|\[(/?)THINK\]|\u25c1(/?)think\u25b7", re.IGNORECASE
)
# Each piece of broken JSON is read to its end or nearly so: a reply that is made of them would take minutes.
_MAX_BROKEN = 32


class DuplicateKeyError(ValueError):
    """A JSON object says two things under one name; which one was meant cannot be known."""


class BrokenJsonError(ValueError):
    """There is too much that looks like JSON and is none to go on looking."""


@dataclass(frozen=True, slots=True)
class FoundJson:
    """The JSON in a text.

    Attributes:
        values: The JSON objects and lists of objects, outermost only.
        texts: The text that each was read from.
        rest: The text around them.
        after: The part of it that follows the last of them; "" where there is none.
    """

    values: list[Any]
    texts: list[str]
    rest: str
    after: str


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
        BrokenJsonError: Too much of the text looks like JSON and is none.

    >>> find_json('<think>{"a": 1}</think> Here:\n{"a": 2} Done.')
    FoundJson(values=[{'a': 2}], texts=['{"a": 2}'], rest=' Here:\n Done.', after=' Done.')
    """
    placed, at, broken = [], 0, 0
    while match := _START.search(text, at):
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except DuplicateKeyError:
            raise
        except (ValueError, RecursionError):  # prose, cut off, or nested deeper than any answer is
            broken += 1
            if broken > _MAX_BROKEN:
                raise BrokenJsonError(f"more than {_MAX_BROKEN} pieces of it look like JSON and are none") from None
            at = match.start() + 1
            continue
        placed.append(_Placed(value, match.start(), end))
        at = end
    first, last = _answer_span(text, placed)
    placed = [found for found in placed if first <= found.start and found.end <= last]
    starts = [first, *(found.end for found in placed)]
    ends = [*(found.start for found in placed), last]
    around = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return FoundJson(
        values=[found.value for found in placed],
        texts=[text[found.start : found.end] for found in placed],
        rest="".join(around),
        after=around[-1] if placed else "",
    )


def _answer_span(text: str, placed: list[_Placed]) -> tuple[int, int]:
    """Return from where to where the text is no thought."""
    first, last, number = 0, len(text), 0
    for tag in _THOUGHT.finditer(text):
        while number < len(placed) and placed[number].end <= tag.start():
            number += 1
        if number < len(placed) and placed[number].start <= tag.start():
            continue
        if any(tag.groups()):
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
