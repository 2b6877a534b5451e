"""The tool calls in a reply's text, in the form of Hermes and Qwen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NoReturn

__all__ = ["CALL_MARKERS", "WrittenCall", "parse_calls"]

_BEGIN, _END = CALL_MARKERS = ("<tool_call>", "</tool_call>")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One call of a tool, as the model wrote it.

    Attributes:
        name: The tool's name; not empty, and not looked up.
        arguments: JSON text; an object, if the model kept to the form.
    """

    name: str
    arguments: str


def parse_calls(text: str, *, is_whole: bool) -> tuple[str | None, list[WrittenCall]]:
    r"""Take the calls out of a reply.

    A call is a `<tool_call>` with a JSON object that has a `name` and `arguments`, and its end marker. A reply that
    ended by itself may leave the last end marker out; one that was cut off may not, for who knows what was to come. A
    block that is no such call stays in the text.

    What stands before the first call is the content, without the line break that belongs to the call, so that a
    template renders the turn as it was written; of what stands behind it, blocks that are no calls are kept, and
    other text is left out, as vLLM does.

    >>> parse_calls('Look:\n<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>', is_whole=True)
    ('Look:', [WrittenCall(name='look', arguments='{"at": 1}')])

    Args:
        text: The reply, call markers included.
        is_whole: Whether it ended by itself, at its end marker or a stop string, and not at the token limit.

    Returns:
        The content, None where there is none beside calls, and the calls in order.

    Source: vLLM, `hermes_tool_parser.py`. There one broken block makes all blocks of the reply text.
    """
    calls: list[WrittenCall] = []
    pieces: list[str] = []
    start = place = 0
    while (begin := text.find(_BEGIN, place)) >= 0:
        place = begin + len(_BEGIN)
        found = _call_at(text, place, may_be_open=is_whole)
        if found is not None:
            call, end = found
            calls.append(call)
            pieces.append(text[start:begin])
            start = place = end
    if not calls:
        return text, []
    before, *between = pieces
    kept = [before.removesuffix("\n"), *(piece for piece in (*between, text[start:]) if _BEGIN in piece)]
    return "".join(kept) or None, calls


def _call_at(text: str, place: int, *, may_be_open: bool) -> tuple[WrittenCall, int] | None:
    """The call whose JSON begins at `place`, and where its block ends; None where there is no call."""
    try:
        # Read as far as the JSON goes, for an argument may contain the end marker.
        value, place = _DECODER.raw_decode(text, _behind_space(text, place))
        call = WrittenCall(value["name"], json.dumps(value["arguments"], ensure_ascii=False, allow_nan=False))
        # Half a surrogate pair is valid JSON, but no text that could be sent.
        f"{call.name}{call.arguments}".encode()
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(call.name, str) or not call.name:
        return None
    place = _behind_space(text, place)
    if text.startswith(_END, place):
        return call, place + len(_END)
    return (call, place) if may_be_open and place == len(text) else None


def _behind_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _refuse(constant: str) -> NoReturn:
    # Python reads NaN and Infinity; JSON has neither.
    raise ValueError(f"{constant} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
