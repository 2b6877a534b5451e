"""What ART captures by itself: kept out of it, and found again."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import art

__all__ = ["entered_trajectories", "no_capture"]

_entered: ContextVar[list[art.Trajectory] | None] = ContextVar("artkit_entered_trajectories", default=None)


@contextlib.contextmanager
def no_capture() -> Iterator[None]:
    """Inside, no request is captured, neither by `with art.Trajectory()` nor by `art.capture_auto_trajectory`."""
    # An ART that is not loaded captures nothing.
    barrier = getattr(sys.modules.get("art"), "no_capture", None)
    captured = getattr(sys.modules.get("art.auto_trajectory"), "auto_trajectory_context_var", None)
    with barrier() if callable(barrier) else contextlib.nullcontext():
        token = captured.set(None) if captured is not None else None
        try:
            yield
        finally:
            if captured is not None:
                captured.reset(token)


@contextlib.contextmanager
def entered_trajectories() -> Iterator[list[art.Trajectory]]:
    """Yield the list of the trajectories that are entered inside (`with art.Trajectory():`), also by tasks begun there.

    After an error nothing else may hold what such a block has captured. It stays empty under an ART whose trajectories
    cannot be entered (0.5.18).
    """
    _note_entering()
    noted: list[art.Trajectory] = []
    token = _entered.set(noted)
    try:
        yield noted
    finally:
        _entered.reset(token)


@functools.cache
def _note_entering() -> None:
    """Have `art.Trajectory.__enter__` note who enters, where somebody asked for that; it does what it did."""
    import art

    kind: Any = art.Trajectory
    enter = getattr(kind, "__enter__", None)
    if enter is None:
        return

    @functools.wraps(enter)
    def noting(self: art.Trajectory) -> Any:
        if (noted := _entered.get()) is not None:
            noted.append(self)
        return enter(self)

    kind.__enter__ = noting
