"""The tracker: what a run tells about itself, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from artkit.tracking.events import TrackingEvent

__all__ = ["Tracker"]


@runtime_checkable
class Tracker(Protocol):
    """Shows or keeps what a run reports.

    The trainer calls `handle` on its event loop, once for each event and tracker, in the order of the facts and never
    concurrently: a few times a step, and once for each rollout. So it must return quickly and must not wait; what
    needs a network hands the event to a thread or task of its own.

    It should not raise. An exception does not stop the run: the trainer warns once and goes on without that tracker,
    because a screen that broke is no reason to lose an hour of training. `KeyboardInterrupt` and cancellation pass.

    After an error or Ctrl-C there may be no `RunFinished`, and after a kill nothing at all, so a tracker keeps nothing
    that only a last event would save. One that has a method `close()` is closed at the end of `run`, however it ends;
    it may be told more after that, by the next run.
    """

    def handle(self, event: TrackingEvent) -> None:
        """Take one event."""
