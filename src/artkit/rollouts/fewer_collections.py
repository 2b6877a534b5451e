"""Python's garbage collector while many rollouts play."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["fewer_collections"]

_PYTHONS_OWN = (700, 10, 10)  # up to 3.13
_OLDEST = 100

_inside = 0


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """Have the collector walk through all that lives a tenth as often inside.

    Replies with log probabilities are some hundred objects each, none of them garbage: walking through those of a
    thousand rollouts again and again takes longer than playing them. What is garbage and young is found as ever.

    A program that has set thresholds of its own, or turned the collector off, is left alone.
    """
    global _inside  # noqa: PLW0603  # the collector is the process's
    if not _inside and gc.get_threshold() != _PYTHONS_OWN:
        yield
        return
    if not _inside:
        gc.set_threshold(*_PYTHONS_OWN[:2], _OLDEST)
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if not _inside and gc.get_threshold() == (*_PYTHONS_OWN[:2], _OLDEST):
            gc.set_threshold(*_PYTHONS_OWN)
