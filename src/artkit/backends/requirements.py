"""What a backend needs of its surroundings before it can be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["required_environment"]

# By class name, so that nothing needs to be imported to know, and subclasses count too.
_VARIABLES = {
    "ServerlessBackend": ("WANDB_API_KEY",),
    "TinkerBackend": ("TINKER_API_KEY",),
    "TinkerNativeBackend": ("TINKER_API_KEY",),
}


def required_environment(backend: Any) -> tuple[str, ...]:
    """Return the environment variables that `backend` cannot work without.

    ART's serverless backend reads its key from the variable in more places than its constructor, and Tinker's prints
    a key that it is given, so the variable is asked for even where a key was passed.
    """
    return tuple(dict.fromkeys(_needed(backend)))


def _needed(backend: Any) -> Iterator[str]:
    for kind in type(backend).__mro__:
        yield from _VARIABLES.get(kind.__name__, ())
