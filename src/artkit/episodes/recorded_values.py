"""Values of users as JSON data, and what can be had back as the object that it was."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

__all__ = ["as_json", "dump_object", "load_object", "to_line"]

_PLAIN = (date, time, timedelta, Decimal, UUID, PurePath, Enum)
_MAX_DEPTH = 100
_MAX_BITS = 4096  # of an integer that Python writes in decimals without being told to


def dump_object(value: Any) -> tuple[Any, list[str] | None]:
    """Return `value` as data, and its class as `load_object` takes it; None where the data would not become it again.

    A pydantic model, a dataclass or an enum becomes itself again. What it holds may not, such as a subclass in a field
    of its base: the data has more than the object would, and stays data.
    """
    kind = type(value)
    name = [kind.__module__, kind.__qualname__]
    if not _has_fields(kind):
        return value, None
    whole = to_line(_by_fields(value))
    for dump in (_by_name, _by_alias, _by_fields):
        try:
            data = _in_order(json.loads(to_line(dump(value))), value)
            loaded = load_object(data, name)
            if type(loaded) is kind and to_line(_by_fields(loaded)) == whole:
                return data, name
        except Exception:  # noqa: BLE001, S112  # a user's class may raise anything while it is written or read
            continue
    return json.loads(whole), None


def load_object(value: Any, name: list[str] | None) -> Any:
    """Return an object from its data; the data where the program that reads it has no such class, or another by now.

    A recording is data: what it names is looked for among what is loaded, and never imported.
    """
    if name is None:
        return value
    module, path = name
    kind: Any = sys.modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, "__dict__", {}).get(part)
    if not (isinstance(kind, type) and _has_fields(kind)):
        return value
    for load in (_from_json, _from_data):
        try:
            return load(kind, value)
        except Exception:  # noqa: BLE001, S112  # as above
            continue
    return value


def as_json(value: object) -> Any:
    """Return what `json` does not know as data: models and dataclasses by field, arrays as lists, else the `repr`."""
    try:
        return _as_json(value)
    except Exception:  # noqa: BLE001  # a user's class may be broken itself
        return f"<{type(value).__name__}>"


def to_line(value: Any) -> str:
    """Return `value` as JSON, in ASCII: text of a model may hold lone surrogates, which UTF-8 cannot.

    A step must not be lost over an odd value in somebody's metadata, so nothing is refused: keys that JSON cannot have
    become text, and what holds itself, or is nested beyond reason, is cut off there.
    """
    try:
        return json.dumps(value, default=as_json)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_bounded(value, 0))


def _as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        try:
            return _in_order(value.model_dump(mode="json", warnings=False, serialize_as_any=True), value)
        except Exception:  # noqa: BLE001  # it holds what pydantic cannot write; its parts come by here one by one
            return _by_fields(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _by_fields(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)  # in an order, such that equal episodes are recorded alike
    if isinstance(value, bytes | bytearray):
        return _text_of(value)
    if isinstance(value, _PLAIN):
        return to_jsonable_python(value)
    return to_list() if callable(to_list := getattr(value, "tolist", None)) else repr(value)


def _in_order(data: Any, value: Any) -> Any:
    """Return the data of `value` with its sets in an order: two that are equal are walked in the order they grew in."""
    if isinstance(data, list):
        if isinstance(value, set | frozenset):
            return sorted(data, key=to_line)
        if isinstance(value, list | tuple) and len(value) == len(data):
            return [_in_order(item, of) for item, of in zip(data, value, strict=True)]
    if isinstance(data, dict):
        parts = {str(key): of for key, of in value.items()} if isinstance(value, Mapping) else _parts(value)
        return {key: _in_order(item, parts.get(key)) for key, item in data.items()}
    return data


def _parts(value: Any) -> dict[Any, Any]:
    """Return the fields of a model or a dataclass, under every name that its data may have them."""
    if isinstance(value, BaseModel):
        kinds = type(value).model_fields
        aliases = {of.serialization_alias or of.alias or name: name for name, of in kinds.items()}
        own: dict[str, Any] = _by_fields(value)
        return own | {alias: own[name] for alias, name in aliases.items()}
    return _by_fields(value) if is_dataclass(value) and not isinstance(value, type) else {}


def _text_of(data: bytes | bytearray) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _has_fields(kind: type) -> bool:
    # A dataclass that does something when it is made is left alone: reading a file is no reason to do it.
    is_data = is_dataclass(kind) and not hasattr(kind, "__post_init__")
    return is_data or issubclass(kind, BaseModel | Enum)


def _by_fields(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields} | (value.model_extra or {})
    if isinstance(value, Enum):
        return value.value
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _by_name(value: Any, *, by_alias: bool = False) -> Any:
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json", by_alias=by_alias, warnings=False)


def _by_alias(value: Any) -> Any:
    return _by_name(value, by_alias=True)


def _from_json(kind: Any, value: Any) -> Any:
    # In which a strict model takes a list for a tuple and a text for a date.
    return _adapter(kind).validate_json(json.dumps(value))


def _from_data(kind: Any, value: Any) -> Any:
    # In which a text may hold lone surrogates.
    return _adapter(kind).validate_python(value)


@lru_cache(maxsize=64)
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _bounded(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else hex(value)
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {_key(key): _bounded(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(item, depth + 1) for item in value]
    return _bounded(as_json(value), depth + 1)


def _key(key: object) -> Any:
    return key if key is None or isinstance(key, str | int | float) else str(as_json(key))
