"""When a run stops before its data ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from artkit.validation import Progress

__all__ = ["StopCondition"]


class StopCondition(Protocol):
    """Decides after each trained step whether the run stops."""

    def __call__(self, progress: Progress, metrics: Mapping[str, float]) -> str | None:
        """Return the reason to stop, or None to go on.

        Called by the trainer after every trained and validated step, never concurrently, and once more for the last
        step when a run is resumed: the answer may have died with the session. `metrics` holds what was logged for that
        step, by ART's names, `val/reward` included where it was validated. What it raises ends the run.
        """
