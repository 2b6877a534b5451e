"""Telling the trackers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from artkit.rollouts import GatherWaits
from artkit.secrets import scrub_values
from artkit.tracking import LoopBlocked, RolloutFinished, Tracker, TrackingEvent, Waiting, Warned
from artkit.training.tokens import completion_tokens

if TYPE_CHECKING:
    from artkit.rollouts import GatherNotice, MemberFinished

__all__ = ["Broadcast"]


class Broadcast:
    """Hands every event to every tracker, without secrets: a tracker may send it anywhere.

    One that raises is left out from then on: it must not cost a run.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = list(trackers)
        self._all = list(trackers)

    def __call__(self, event: TrackingEvent) -> None:
        event = _without_secrets(event)
        working: list[Tracker] = []
        failures: list[str] = []
        for tracker in self._trackers:
            try:
                tracker.handle(event)
                working.append(tracker)
            except Exception as error:  # noqa: BLE001  # a user's tracker may raise anything
                failures.append(f"{type(tracker).__name__} failed and is left out: {type(error).__name__}: {error}")
        self._trackers = working
        for text in failures:
            self(Warned(text=text))

    def add(self, tracker: Tracker) -> None:
        """Tell one more tracker from now on."""
        self._trackers.append(tracker)
        self._all.append(tracker)

    def close(self) -> None:
        """Close the trackers that can be closed, also those that failed: nothing comes after this."""
        for tracker in self._all:
            with contextlib.suppress(Exception):  # the run has its result by now
                getattr(tracker, "close", lambda: None)()

    def notice(self, notice: GatherNotice) -> None:
        """Pass on that nothing ends, or that the event loop does not turn."""
        if isinstance(notice, GatherWaits):
            self(
                Waiting(
                    scenarios=notice.scenario_ids,
                    running=notice.running,
                    seconds=notice.seconds,
                    scoring=notice.scoring,
                )
            )
        else:
            self(LoopBlocked(seconds=notice.seconds, where=notice.where))

    def member(self, split: str, event: MemberFinished) -> None:
        """Pass on the end of a rollout."""
        self(
            RolloutFinished(
                split=split,
                scenario_id=event.scenario_id,
                member=event.member,
                seconds=event.seconds,
                failure=f"{event.failure.kind}: {event.failure}" if event.failure else None,
                tokens=completion_tokens(event.episode) if event.episode else 0,
            )
        )


def _without_secrets(event: TrackingEvent) -> TrackingEvent:
    texts = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    changed = {name: safe for name, value in texts.items() if (safe := scrub_values(value)) is not value}
    return dataclasses.replace(event, **changed) if changed else event
