"""The content of a scenario as one digest, equal in every process."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pydantic import BaseModel

from artkit.errors import ConfigurationError

__all__ = ["content_digest"]

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def content_digest(value: Any) -> str:
    """Return the SHA-256 of `value`'s content as 64 hex digits.

    Equal content gives an equal digest in every process: the order of keys and of sets does not count, addresses in
    memory never enter. `model_dump_json` and `repr` promise neither, for the order of a set of str is drawn anew in
    each process, and a run could then not be resumed. An array or tensor is the numbers in it, a picture its pixels.

    Raises:
        ConfigurationError: If `value` is nested too deep.
    """
    try:
        text = _canonical(value)
    except RecursionError as error:
        msg = f"a {type(value).__name__} is nested too deep to be told from others"
        raise ConfigurationError(msg, "keep what is nested so deep as text") from error
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _canonical(value: Any) -> str:
    """Return `value` as text that is equal exactly where the content is.

    In ASCII: which letters `repr` shows as they are changes with the version of Python.
    """
    if type(value) in _PLAIN:
        return ascii(value)  # asked first: nearly all values of a row are one of these
    if isinstance(value, BaseModel):
        return _canonical_mapping(type(value).__name__, value.model_dump(mode="python"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _canonical_mapping(type(value).__name__, fields)
    if isinstance(value, Mapping):
        return _canonical_mapping("", value)
    if isinstance(value, AbstractSet):
        return "{" + ",".join(sorted(map(_canonical, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _canonical_plain(value) if isinstance(value, type) else _canonical_object(value)


def _canonical_mapping(name: str, mapping: Mapping[Any, Any]) -> str:
    items = sorted((_canonical(key), _canonical(item)) for key, item in mapping.items())
    return ascii(name)[1:-1] + "(" + ",".join(f"{key}:{item}" for key, item in items) + ")"


def _canonical_object(value: Any) -> str:
    """Arrays, tensors and pictures are what is in them: the repr of a long array leaves out its middle."""
    if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):
        return _canonical(value.tolist())
    if hasattr(value, "mode") and callable(getattr(value, "tobytes", None)):
        return _canonical([value.mode, value.size, hashlib.sha256(value.tobytes()).hexdigest()])
    return _canonical_plain(value)


def _canonical_plain(value: object) -> str:
    text = ascii(value)
    if " at 0x" in text or f"{id(value):x}" in text.lower():
        # The repr of a plain object holds its address, or that of what it is made of (a partial, a bound method). What
        # identifies such an object is its id, if it has one.
        return f"{type(value).__qualname__!a}({getattr(value, 'id', '')!a})"
    return text
