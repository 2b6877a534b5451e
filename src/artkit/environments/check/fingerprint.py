"""What an object holds, as a value that differs when the content does; large objects only in part."""

from __future__ import annotations

import gc
import itertools
import operator
import random
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any

__all__ = ["Fingerprints"]

_MAX_NODES = 20_000
_MAX_ITEMS = 500
_MAX_DEPTH = 5
_MAX_BYTES = 1_000_000


class Fingerprints:
    """Takes fingerprints, of so many values altogether."""

    def __init__(self) -> None:
        self._left = _MAX_NODES

    def of(self, value: Any) -> Any:
        """Return what `value` holds; the name of its class, where it does not like to be looked at."""
        try:
            return self._of(value, 0)
        except Exception:  # noqa: BLE001  # a user's object can raise anything
            return type(value).__name__

    def of_cached(self, cached: Any) -> tuple[int, Any]:
        """Return how many results a function under `functools.lru_cache` remembers, and what they hold."""
        held = [part for part in gc.get_referents(cached) if not isinstance(part, type | types.FunctionType)]
        return cached.cache_info().currsize, self.of(held)

    def _of(self, value: Any, depth: int) -> Any:  # noqa: C901, PLR0911  # one line per kind of value
        self._left -= 1
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        if (generator := _state_of_generator(value)) is not None:
            return generator
        if isinstance(value, type | types.ModuleType) or (callable(value) and not hasattr(value, "__dict__")):
            return repr(value)
        if isinstance(value, itertools.count):
            return repr(value)
        if depth >= _MAX_DEPTH or self._left < 0:
            return type(value).__name__
        if isinstance(value, Mapping):
            items = list(itertools.islice(value.items(), _MAX_ITEMS))
            return {str(key): self._of(item, depth + 1) for key, item in items} | _size(value)
        if isinstance(value, AbstractSet):
            return sorted(map(repr, itertools.islice(value, _MAX_ITEMS))), len(value)
        if isinstance(value, list | tuple) or type(value).__name__ == "deque":
            return [self._of(item, depth + 1) for item in itertools.islice(value, _MAX_ITEMS)]
        if hasattr(value, "tobytes"):
            size = getattr(value, "nbytes", 0)
            return (type(value).__name__, size, hash(value.tobytes()) if size < _MAX_BYTES else 0)
        if isinstance(value, Iterator):
            return type(value).__name__, self._of(_place_of(value), depth + 1)
        fields = _fields(value)
        if not fields:
            return str(value) if isinstance(value, PurePath) else type(value).__name__
        return {name: self._of(item, depth + 1) for name, item in list(fields.items())[:_MAX_ITEMS]}


def _state_of_generator(value: Any) -> Any:
    """Return the state of a generator of random numbers; None for anything else."""
    if isinstance(value, random.Random):
        return "random.Random", hash(value.getstate())
    if not type(value).__module__.startswith(("numpy.random", "torch")):
        return None
    if type(value).__name__ == "RandomState":
        _, keys, *others = value.get_state()
        return "numpy.random", hash((keys.tobytes(), *others))
    if (inner := getattr(value, "bit_generator", None)) is not None:
        return "numpy.random", repr(inner.state)
    return ("torch", hash(value.get_state().numpy().tobytes())) if type(value).__name__ == "Generator" else None


def _place_of(iterator: Iterator[Any]) -> Any:
    """Return how far an iterator has come, without moving it."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        return None if frame is None else (frame.f_lasti, dict(frame.f_locals))
    if isinstance(iterator, itertools.cycle) and hasattr(iterator, "__reduce__"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.14 on there is none to call
            reduced = iterator.__reduce__()
        return [operator.length_hint(reduced[1][0], -1), *reduced[2:]] if isinstance(reduced, tuple) else None
    return operator.length_hint(iterator, -1)


def _fields(value: object) -> dict[str, Any]:
    """Return the attributes of an object, those in slots too."""
    # Those of the standard library fill in what they have not worked out before, as paths do.
    kinds = [cls for cls in type(value).__mro__ if cls.__module__.partition(".")[0] not in sys.stdlib_module_names]
    own = [vars(cls).get("__slots__", ()) for cls in kinds]
    slots = [name for names in own for name in ([names] if isinstance(names, str) else names)]
    fields = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    return {name: item for name, item in fields.items() if not name.startswith("__")}


def _size(value: Mapping[Any, Any]) -> dict[str, int]:
    return {"…": len(value)} if len(value) > _MAX_ITEMS else {}
