"""The call that makes a backend like one that is there."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from artkit.secrets import scrub

__all__ = ["constructor_call"]

_MISSING: Any = object()
_SECRET = ("key", "token", "secret", "password")


def constructor_call(backend: Any) -> str:
    """Return source code that makes a backend like `backend`, given its class by name.

    A `repr` that is such a call is believed. Otherwise the arguments are found by their names in the backend's
    attributes, as ART's backends keep them (`path` in `_path`); those that are plain values other than their defaults
    are given, secrets never.

    >>> from artkit.testing import DiaryBackend
    >>> constructor_call(DiaryBackend())
    'DiaryBackend()'
    """
    name = type(backend).__name__
    if repr(backend).startswith(f"{name}("):
        return scrub(repr(backend))
    arguments = []
    for parameter in inspect.signature(type(backend)).parameters.values():
        value = getattr(backend, f"_{parameter.name}", getattr(backend, parameter.name, _MISSING))
        # Absolute, so that the call means the same from any directory.
        value = str(Path(value).resolve()) if parameter.name == "path" and value is not _MISSING else value
        is_secret = any(word in parameter.name for word in _SECRET)
        if isinstance(value, str | int | float) and value != parameter.default and not is_secret:
            arguments.append(f"{parameter.name}={value!r}")
    return scrub(f"{name}({', '.join(arguments)})")
