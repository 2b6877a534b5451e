"""The end of an episode: its last metrics, and what a failure made of it."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

from artkit.bridge import model_turns
from artkit.episodes import FailureKind, FailureRecord, StopReason
from artkit.rollouts.replies import tell_request_error

if TYPE_CHECKING:
    from artkit.episodes import Episode

__all__ = ["apart", "fail", "finish"]

_LIMITS = {StopReason.MAX_TURNS, StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}
_CUT_OFF = {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}


def apart(episode: Episode) -> Episode:
    """Return the episode as it stands, to which a play that was given up cannot add any more."""
    own = ("messages_and_choices", "metrics", "metadata", "logs")
    return episode.model_copy(update={name: copy.copy(getattr(episode, name)) for name in own})


def fail(
    episode: Episode, error: BaseException, kind: FailureKind, *, request_error: BaseException | None = None
) -> None:
    """Write onto a partial episode what ended it.

    Args:
        episode: An episode with a turn of the model's.
        error: What it failed with.
        kind: Whose failure that was.
        request_error: The error of a request to the model that `error` is or came from, if it did.
    """
    tell_request_error(request_error)
    record = FailureRecord.from_exception(error, kind)
    episode.stop_reason = StopReason.TIMEOUT if isinstance(error, TimeoutError) else StopReason.ERROR
    if kind is FailureKind.LIMIT:
        # A rule of the user's may call anything a limit; what the model's server refuses as one is an overflow.
        if request_error is not None and not isinstance(error, TimeoutError):
            episode.stop_reason = StopReason.CONTEXT_OVERFLOW
        episode.metadata["failure_kind"] = str(kind)
        episode.log(f"{episode.stop_reason} at a limit: {record}")
        return
    episode.failure = record
    episode.log(f"{kind} failure: {record}")


def finish(episode: Episode, *, started_s: float, retries: int = 0, replays: int = 0) -> Episode:
    """Write the metrics and metadata that every episode carries, and return it.

    What a user's own rollout, or a rollout inside it, wrote under these names is kept or added to.

    Args:
        episode: An episode whose play is over.
        started_s: `time.perf_counter()` when it began.
        retries: Requests sent again.
        replays: How often the episode was played before, and failed; it counts among the retries.
    """
    episode.stop_reason = episode.stop_reason or StopReason.DONE
    kind = episode.failure.kind if episode.failure else None
    if kind is None and (episode.stop_reason in _LIMITS or episode.metadata.get("failure_kind") == FailureKind.LIMIT):
        kind = FailureKind.LIMIT
    own = episode.metrics
    own.setdefault("turns", model_turns(episode))
    own.setdefault("tool_errors", 0)
    own["error"] = episode.failure is not None or bool(own.get("error"))
    own["truncated"] = episode.stop_reason in _CUT_OFF or bool(own.get("truncated"))
    own["retries"] = own.get("retries", 0) + retries + replays
    if replays:
        episode.metadata["replays"] = replays
    own["duration_s"] = time.perf_counter() - started_s
    episode.metadata["stop_reason"] = str(episode.stop_reason)
    episode.metadata["failure_kind"] = str(kind) if kind else None
    return episode
