"""Who is told that the model's server replies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

__all__ = ["replies_told_to", "tell_reply"]

_tell: ContextVar[Callable[[], None] | None] = ContextVar("artkit_replies", default=None)


@contextlib.contextmanager
def replies_told_to(tell: Callable[[], None]) -> Iterator[None]:
    """Have `tell` called for each reply of the model to a rollout that is started inside."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def tell_reply() -> None:
    """Tell that the model has replied."""
    if (tell := _tell.get()) is not None:
        tell()
