"""Lines of a `history.jsonl`, read as rows whatever a crash or another program made of them."""

from __future__ import annotations

import codecs
import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

from pydantic_core import from_json

__all__ = ["Row", "lines_of", "may_hold", "rows_of"]

Row = dict[str, Any]

_BATCH_BYTES = 1 << 20
_MIN_COMMON_BYTES = 5
_MAX_DIGITS = 4_000  # Python refuses to read a whole number of more than 4,300


def lines_of(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines from where `file` stands on, about a megabyte at a time."""
    while lines := file.readlines(_BATCH_BYTES):
        yield lines


def may_hold(lines: Sequence[bytes], keys: Collection[str]) -> list[bytes]:
    """Return the lines that may hold a row with one of `keys`, without reading them as rows.

    A key stands in its line as it is, in quotes, unless something in the line is escaped: then the line is returned.
    """
    if not keys:
        return []
    needles = [f'"{key}"'.encode("utf-8", "surrogatepass") for key in keys]
    # Looking for what they have in common is faster than looking for each, and the metrics of a split have much.
    first, last = min(needles), max(needles)
    common = first[: sum(itertools.takewhile(bool, map(int.__eq__, first, last)))]
    if len(common) >= _MIN_COMMON_BYTES:
        return [line for line in lines if common in line or b"\\" in line]
    needles.append(b"\\")
    return [line for line in lines if any(map(line.__contains__, needles))]


def rows_of(lines: Sequence[bytes]) -> tuple[list[Row], int]:
    """Return the rows in `lines`, in order, and how many lines held none; blank ones do not count.

    Where a killed process left a line without its end and the next one wrote behind it, the whole rows in it are found.
    """
    try:
        # All at once: most files have nothing wrong with them, and this takes half the time.
        rows = from_json(b"[" + b",".join(lines) + b"]")
    except ValueError:
        pass
    else:
        if len(rows) == len(lines) and all(type(row) is dict for row in rows):
            return rows, 0
    found: list[Row] = []
    empty = 0
    for line in lines:
        rows = _rows_in(line)
        found += rows
        empty += not rows and bool(line.strip())
    return found, empty


def _rows_in(line: bytes) -> list[Row]:
    row = _parse(line)
    if row is not None:
        return [row]
    # Rows are flat, so a brace before a quote begins one.
    pieces = map(_parse, re.split(rb'(?=\{")', line))
    return [row for row in pieces if row is not None]


def _parse(text: bytes) -> Row | None:
    """Return the row that `text` is, or None."""
    try:
        row = from_json(text)
    except ValueError:
        # What `json.dumps` writes and from_json does not take, such as half a surrogate pair; a mark of the byte order,
        # which an editor puts in front; and bytes that are no text: the numbers beside them may be all there.
        decoded = text.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        try:
            row = json.loads(decoded, parse_int=_whole)
        except (ValueError, RecursionError):
            return None
    return row if isinstance(row, dict) else None


def _whole(digits: str) -> float:
    return int(digits) if len(digits) < _MAX_DIGITS else math.inf
