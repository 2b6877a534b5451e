"""What outlives an episode: the classes, functions and modules that an environment is made of."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import random
import sys
import types
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from artkit.environments.check.plain import shortened

__all__ = ["Change", "State", "own_modules"]

_MAX_NODES = 20_000
_MAX_ITEMS = 500
_MAX_DEPTH = 5
_MAX_BYTES = 1_000_000
_NOT_OWN = {"artkit", "abc", "builtins", "typing", "pydantic", "typing_extensions"}


@dataclass(frozen=True)
class Change:
    """A place whose value changed."""

    place: str
    before: Any
    after: Any

    @property
    def is_count(self) -> bool:
        """Whether it counts up."""
        if isinstance(self.before, int) and isinstance(self.after, int):
            return self.after > self.before
        return isinstance(self.after, str) and self.after.startswith("count(")

    def __str__(self) -> str:
        return f"{self.place} went from {shortened(self.before)} to {shortened(self.after)}"


class State:
    """The values that outlive an episode, as they are when this is made; large ones only in part.

    Args:
        environment: The class or factory.
        made: An instance it made.
    """

    def __init__(self, environment: Any, made: Any) -> None:
        self._left = _MAX_NODES
        self._values: dict[str, Any] = {}
        seen: set[int] = set()
        for name, value in _places(environment, made, seen):
            try:
                self._values[name] = self._fingerprint(value, 0)
            except Exception:  # noqa: BLE001  # a user's object may not like to be looked at
                self._values[name] = type(value).__name__

    def changes(self, later: State) -> list[Change]:
        """Return what is different in `later`."""
        return [
            Change(place, self._values.get(place), after)
            for place, after in later._values.items()  # another one of its own class
            if self._values.get(place) != after
        ]

    def _fingerprint(self, value: Any, depth: int) -> Any:  # noqa: C901, PLR0911  # one line per kind of value
        self._left -= 1
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        if isinstance(value, random.Random):
            return ("random.Random", hash(value.getstate()))
        if isinstance(value, type | types.ModuleType) or (callable(value) and not hasattr(value, "__dict__")):
            return repr(value)
        if isinstance(value, itertools.count):
            return repr(value)
        if depth >= _MAX_DEPTH or self._left < 0:
            return type(value).__name__
        if isinstance(value, Mapping):
            items = list(itertools.islice(value.items(), _MAX_ITEMS))
            return {str(key): self._fingerprint(item, depth + 1) for key, item in items} | _size(value)
        if isinstance(value, AbstractSet):
            return sorted(map(repr, itertools.islice(value, _MAX_ITEMS))), len(value)
        if isinstance(value, list | tuple) or type(value).__name__ == "deque":
            return [self._fingerprint(item, depth + 1) for item in itertools.islice(value, _MAX_ITEMS)]
        if hasattr(value, "bit_generator"):
            return ("numpy.random.Generator", repr(value.bit_generator.state))
        if hasattr(value, "tobytes"):
            size = getattr(value, "nbytes", 0)
            return (type(value).__name__, size, hash(value.tobytes()) if size < _MAX_BYTES else 0)
        if isinstance(value, Iterator):
            return (type(value).__name__, operator.length_hint(value, -1))
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict):
            own = {name: item for name, item in fields.items() if not name.startswith("__")}
            return {name: self._fingerprint(item, depth + 1) for name, item in list(own.items())[:_MAX_ITEMS]}
        return type(value).__name__


def own_modules(environment: Any, made: Any) -> list[types.ModuleType]:
    """Return the modules that an environment is written in: those of its classes, and their loaded siblings."""
    names = {cls.__module__ for cls in _classes(environment, made)}
    names |= {getattr(_function(environment), "__module__", None) or ""}
    roots = {name.partition(".")[0] for name in names} - _NOT_OWN - {"", "tests"}
    own = [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and (name in names or name.partition(".")[0] in roots)
        and name.partition(".")[0] not in _NOT_OWN
    ]
    return list(dict.fromkeys(own))


def _classes(environment: Any, made: Any) -> list[type]:
    kinds = {environment} if isinstance(environment, type) else set()
    kinds.add(type(made))
    return [
        cls
        for kind in kinds
        for cls in kind.__mro__
        if cls.__module__.partition(".")[0] not in _NOT_OWN and cls.__module__ not in sys.stdlib_module_names
    ]


def _places(environment: Any, made: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    classes = _classes(environment, made)
    for cls in classes:
        yield from _of_class(cls, seen)
    function = _function(environment)
    if isinstance(function, types.FunctionType):
        yield from _of_function(function, seen)
    for name in dict.fromkeys(cls.__module__ for cls in classes):
        if module := sys.modules.get(name):
            yield from _of_module(module, seen)


def _of_module(module: types.ModuleType, seen: set[int]) -> Iterator[tuple[str, Any]]:
    name = module.__name__
    for key, value in list(vars(module).items()):
        if key.startswith("__") or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type | types.FunctionType):
            if value.__module__ == name:
                yield from _of_class(value, seen) if isinstance(value, type) else _of_function(value, seen)
        elif not hasattr(value, "cache_info"):  # what functools remembers changes nothing
            yield f"{name}.{key}", value


def _of_class(cls: type, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(cls) in seen:
        return
    seen.add(id(cls))
    for name, value in list(vars(cls).items()):
        inner = (
            inspect.unwrap(getattr(value, "__func__", value))
            if callable(value) or hasattr(value, "__func__")
            else value
        )
        if isinstance(inner, types.FunctionType):
            yield from _of_function(inner, seen)
        elif not name.startswith(("__", "_abc_")) and not isinstance(value, property | types.MemberDescriptorType):
            yield f"{cls.__qualname__}.{name}", value


def _of_function(function: types.FunctionType, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(function) in seen:
        return
    seen.add(id(function))
    name = function.__qualname__
    if function.__defaults__:
        yield f"a default argument of {name}", function.__defaults__
    if function.__kwdefaults__:
        yield f"a default argument of {name}()", function.__kwdefaults__
    if function.__dict__:
        yield f"{name}.__dict__", function.__dict__
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            continue
        if free != "__class__" and not isinstance(value, type | types.FunctionType):
            yield f"{free}, which {name} holds,", value


def _function(environment: Any) -> Any:
    while isinstance(environment, functools.partial):
        environment = environment.func
    return environment


def _size(value: Mapping[Any, Any]) -> dict[str, int]:
    return {"…": len(value)} if len(value) > _MAX_ITEMS else {}
