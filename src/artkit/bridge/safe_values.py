"""Numbers, texts and JSON that ART's log can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

from pydantic import BaseModel

__all__ = ["is_json", "safe_json", "safe_number", "safe_scalar", "safe_text"]


def safe_number(value: Any) -> float | int | bool | None:
    """Return `value` as a finite number of Python's own, or None where it is none."""
    if type(value) not in (bool, int, float):
        value = _unwrapped(value)
    try:
        return value if isinstance(value, bool | int | float) and math.isfinite(value) else None
    except OverflowError:  # an int beyond every float, which is what ART would make of it
        return None


def safe_text(text: str) -> str:
    r"""Return `text` with every lone surrogate replaced by U+FFFD; files hold UTF-8, which has none.

    >>> safe_text("half an emoji: \ud83d") == "half an emoji: \ufffd"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def safe_scalar(value: Any) -> float | int | str | bool | None:
    """Return `value` as a JSON scalar; what is none becomes text."""
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return safe_text(str(value))
    if (number := safe_number(value)) is not None:
        return number
    if isinstance(value, float):
        return str(value)
    return json.dumps(safe_json(value), ensure_ascii=False)


def is_json(value: Any) -> bool:
    """Whether `value` can be written as UTF-8 JSON as it is."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def safe_json(value: Any) -> Any:
    """Return `value` as JSON data: texts made safe, models and dataclasses by field, anything unknown as `str`."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return safe_text(str(value))
    if isinstance(value, BaseModel):
        return safe_json(value.model_dump(mode="python", warnings=False))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: safe_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {safe_text(str(key)): safe_json(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [safe_json(item) for item in value]
    return safe_text(str(value))


def _unwrapped(value: Any) -> Any:
    """Return the number inside NumPy's and torch's scalars, or what `float` makes of other numbers."""
    try:
        if callable(item := getattr(value, "item", None)):
            return item()
        return float(value) if isinstance(value, Real | Decimal) else value
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
