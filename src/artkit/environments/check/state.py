"""What outlives an episode: the classes, functions and modules that an environment is made of."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from artkit.environments.check.fingerprint import Fingerprints
from artkit.environments.check.plain import shortened

__all__ = ["Change", "State", "listed", "own_modules", "places"]

_NOT_OWN = {"artkit", "abc", "builtins", "typing", "pydantic", "typing_extensions"}
_MAX_LISTED = 3


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
        fingerprints = Fingerprints()
        self._values: dict[str, Any] = {}
        self._remembered: dict[str, tuple[int, Any]] = {}
        for name, value in _places(environment, made, set()):
            if hasattr(value, "cache_info"):
                self._remembered[name] = fingerprints.of_cached(value)
            else:
                self._values[name] = fingerprints.of(value)

    def changes(self, later: State) -> list[Change]:
        """Return what is different in `later`."""
        changed = [
            Change(place, self._values.get(place), after)
            for place, after in later._values.items()  # another one of its own class
            if self._values.get(place) != after
        ]
        # That a function remembers more results says nothing; that those it gave before are others now does.
        changed += [
            Change(f"what {place} remembers", before[1], after[1])
            for place, before in self._remembered.items()
            if (after := later._remembered.get(place, before))[0] == before[0] and after[1] != before[1]
        ]
        return changed


def listed(changes: Sequence[Change]) -> str:
    """Return the first of the changes in words, each place once."""
    by_place = {change.place: change for change in changes}
    return "; ".join(map(str, list(by_place.values())[:_MAX_LISTED]))


def places(changes: Sequence[Change]) -> str:
    """Return the first of the places that changed, and how many others did."""
    names = list(dict.fromkeys(change.place for change in changes))
    rest = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + rest


def own_modules(environment: Any, made: Any) -> list[types.ModuleType]:
    """Return the modules that an environment is written in: those of its classes, and what is loaded from beside them.

    Those of its classes come first.
    """
    names = {cls.__module__: None for cls in _classes(environment, made)}
    names |= {getattr(_function(environment), "__module__", None) or "": None}
    first = [sys.modules[name] for name in names if name in sys.modules and name.partition(".")[0] not in _NOT_OWN]
    roots = {name.partition(".")[0] for name in names} - _NOT_OWN - {"", "tests"}
    folders = {_folder(module) for module in first} - {None}
    beside = [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and (name.partition(".")[0] in roots or _folder(module) in folders)
        and name.partition(".")[0] not in _NOT_OWN
    ]
    return list(dict.fromkeys([*first, *beside]))


def _folder(module: types.ModuleType) -> str | None:
    """Return where a module lies, unless it was installed."""
    file = getattr(module, "__file__", None)
    return os.path.dirname(file) if file and "site-packages" not in file else None  # noqa: PTH120  # of many modules


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
    for cls in _classes(environment, made):
        yield from _of_class(cls, seen)
    function = _function(environment)
    if isinstance(environment, functools.partial):
        yield f"an argument of the partial {getattr(function, '__qualname__', function)}", _arguments(environment)
    if isinstance(function, types.MethodType):
        yield f"what {function.__qualname__} is bound to", function.__self__
        function = function.__func__
    if isinstance(function, types.FunctionType):
        yield from _of_function(function, seen)
    elif not isinstance(function, type):
        yield f"the factory {type(function).__qualname__}", vars(function) if hasattr(function, "__dict__") else None
    for module in own_modules(environment, made):
        yield from _of_module(module, seen)


def _of_module(module: types.ModuleType, seen: set[int]) -> Iterator[tuple[str, Any]]:
    name = module.__name__
    for key, value in list(vars(module).items()):
        if key.startswith("__") or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type | types.FunctionType):
            if value.__module__ == name:
                yield from _of_class(value, seen) if isinstance(value, type) else _of_function(value, seen)
        else:
            yield f"{name}.{key}", value


def _of_class(cls: type, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(cls) in seen:
        return
    seen.add(id(cls))
    for name, value in list(vars(cls).items()):
        held = getattr(value, "__func__", value)
        inner = inspect.unwrap(held) if callable(held) else held
        if hasattr(held, "cache_info"):
            yield f"{cls.__qualname__}.{name}", held
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


def _arguments(environment: Any) -> list[Any]:
    arguments: list[Any] = []
    while isinstance(environment, functools.partial):
        arguments += [environment.args, environment.keywords]
        environment = environment.func
    return arguments
