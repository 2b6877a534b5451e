"""Python's garbage collector while many rollouts play, or many requests are answered."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["fewer_collections"]

_PYTHONS_OWN = (700, 10, 10)  # up to 3.13
_FEWER = (7_000, 10, 10)

_inside = 0
_lock = threading.Lock()


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """Have the collector walk through what lives a tenth as often inside; any thread may enter.

    Replies with log probabilities are some hundred objects each, none of them garbage: walking through those of a
    thousand rollouts again and again takes longer than playing them.

    A program that has set thresholds of its own, or turned the collector off, is left alone.
    """
    is_counted = _enter()
    try:
        yield
    finally:
        if is_counted:
            _leave()


def _enter() -> bool:
    global _inside  # noqa: PLW0603  # the collector is the process's
    with _lock:
        if not _inside:
            if gc.get_threshold() != _PYTHONS_OWN:
                return False
            gc.set_threshold(*_FEWER)
        _inside += 1
    return True


def _leave() -> None:
    global _inside  # noqa: PLW0603  # the collector is the process's
    with _lock:
        _inside -= 1
        if not _inside and gc.get_threshold() == _FEWER:
            gc.set_threshold(*_PYTHONS_OWN)
