"""Keeping calls out of the trajectory that ART may be capturing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["no_capture"]


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
