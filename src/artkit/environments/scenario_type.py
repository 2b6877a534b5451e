"""Which scenarios an environment plays, by what its class says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ForwardRef, TypeVar, get_args, get_origin

from artkit.environments.environment import Environment
from artkit.scenarios import PromptScenario, Scenario

__all__ = ["scenario_type_of"]


def scenario_type_of(environment: Callable[[], Environment[Any]]) -> type[Scenario]:
    """Return the scenario class that `environment` is generic over; `PromptScenario` where it does not say.

    Args:
        environment: An `Environment` class, or a factory; a factory is called once, and what it made is thrown away.

    >>> class Sum(Scenario):
    ...     left: int
    >>> class Sums(Environment[Sum]): ...
    >>> scenario_type_of(Sums).__name__
    'Sum'
    """
    kind = environment if isinstance(environment, type) else type(environment())
    found = _argument(kind, {})
    if isinstance(found, ForwardRef | str):
        name = found if isinstance(found, str) else found.__forward_arg__
        found = getattr(sys.modules.get(kind.__module__), name, None)
    return found if isinstance(found, type) and issubclass(found, Scenario) else PromptScenario


def _argument(kind: type, known: dict[Any, Any]) -> Any:
    """Return what stands for the scenario in `Environment[…]`, looked for among the bases of `kind`."""
    for base in kind.__dict__.get("__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        given = [known.get(argument, argument) for argument in get_args(base)]
        if origin is Environment:
            return given[0] if given and not isinstance(given[0], TypeVar) else None
        if isinstance(origin, type) and issubclass(origin, Environment):
            names = getattr(origin, "__parameters__", ())
            found = _argument(origin, dict(zip(names, given, strict=False)))
            if found is not None:
                return found
    return None
