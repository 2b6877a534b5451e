"""Values as plain data that can be compared, also with those of another process, and shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

__all__ = ["error_text", "odd_type", "plain", "shortened", "shortened_pair", "without_addresses"]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MAX_DEPTH = 40
_MAX_CHARS = 160
_MAX_ERROR_CHARS = 500


def plain(value: Any, depth: int = 0) -> Any:
    """Return `value` as JSON data that is equal where the content is equal, in every process.

    Models and dataclasses become their fields, sets are put in order, and what is no data at all becomes its `repr`
    without addresses in memory.

    >>> plain({"seen": {"b", "a"}, "at": (1, 2)})
    {'seen': ['a', 'b'], 'at': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="python", warnings=False)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, AbstractSet):
        return sorted((plain(item, depth + 1) for item in value), key=_sort_key)
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy's and torch's
        return plain(to_list(), depth + 1)
    return without_addresses(_safe_repr(value))


def error_text(error: BaseException) -> str:
    """Return an exception as one line of text, without addresses in memory."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a user's exception may be broken itself
        text = "its text cannot be read"
    text = without_addresses(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    text = _printable(text)
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"


def without_addresses(text: str) -> str:
    """Return `text` without the addresses in memory that a `repr` holds.

    >>> without_addresses("<Desk object at 0x7f7f8a00790940>")
    '<Desk object>'
    """
    return _ADDRESS.sub("", text)


def odd_type(value: Any) -> str:
    """Return the name of a class in `value` that is no data, so that a recording keeps only its `repr`; "" for none."""
    odd: list[str] = []

    def fields_of(item: Any) -> Any:
        if isinstance(item, BaseModel):
            return item.model_dump(mode="json", warnings=False)
        if is_dataclass(item) and not isinstance(item, type):
            return {field.name: getattr(item, field.name) for field in fields(item)}
        if isinstance(item, AbstractSet) or callable(getattr(item, "tolist", None)):
            return None
        odd.append(type(item).__name__)
        return None

    try:
        json.dumps(value, default=fields_of)
    except (TypeError, ValueError, RecursionError):
        odd.append(type(value).__name__)
    return odd[0] if odd else ""


def shortened(value: Any, *, around: int = 0) -> str:
    """Return `value` on one line of at most about 160 characters, those at position `around` among them.

    Control characters come out escaped: a report may be shown in a terminal.
    """
    text = _one_line(value)
    if len(text) <= _MAX_CHARS:
        return text
    start = max(0, min(around - _MAX_CHARS // 2, len(text) - _MAX_CHARS))
    end = start + _MAX_CHARS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def shortened_pair(left: Any, right: Any) -> tuple[str, str]:
    """Return two values that differ, shortened such that the first difference is seen."""
    texts = _one_line(left), _one_line(right)
    around = next(
        (place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), min(map(len, texts))
    )
    return shortened(left, around=around), shortened(right, around=around)


def _one_line(value: Any) -> str:
    return _printable(repr(value))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # a user's class may be broken itself
        return f"<{type(value).__name__}>"
