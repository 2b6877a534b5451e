"""Global generators of its own, for code that draws from `random` and `numpy.random` themselves."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["OwnRandom"]

# Two event loops may play in two threads, and the generators are the process's.
_lock = threading.Lock()


class OwnRandom:
    """Gives some code global generators that nobody else draws from, and gives the others theirs back.

    What runs in `with own_random.drawing():` draws on from where it stopped the last time, whatever was drawn in
    between. It must not await inside: other code of the event loop would then draw from these generators. A thread that
    draws from the global ones at that very moment is not kept out.

    Args:
        seed: What the generators begin from.

    >>> own, other = OwnRandom(1), OwnRandom(1)
    >>> with own.drawing():
    ...     first = random.random()
    >>> with other.drawing():
    ...     first == random.random()
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._own: tuple[Any, Any] | None = None

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Inside, `random` and `numpy.random` are this object's."""
        with _lock:
            others = _state()
            if self._own is None:
                random.seed(self._seed)
                np.random.seed(self._seed % 2**32)
            else:
                _restore(self._own)
            try:
                yield
            finally:
                self._own = _state()
                _restore(others)


def _state() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _restore(state: tuple[Any, Any]) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])
