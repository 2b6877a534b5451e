"""The end of an episode: its last metrics, and what a failure made of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from artkit.bridge import model_turns
from artkit.episodes import FailureKind, FailureRecord, StopReason

if TYPE_CHECKING:
    from artkit.episodes import Episode

__all__ = ["fail", "finish"]

_LIMITS = {StopReason.MAX_TURNS, StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}
_CUT_OFF = {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}


def fail(episode: Episode, error: BaseException, kind: FailureKind) -> None:
    """Write onto a partial episode what ended it."""
    if kind is FailureKind.LIMIT:
        episode.stop_reason = StopReason.CONTEXT_OVERFLOW
        episode.log(f"context overflow: {error}")
        return
    episode.failure = FailureRecord.from_exception(error, kind)
    episode.stop_reason = StopReason.TIMEOUT if isinstance(error, TimeoutError) else StopReason.ERROR
    episode.log(f"{kind} failure: {episode.failure}")


def finish(episode: Episode, *, started_s: float, retries: int = 0) -> Episode:
    """Write the metrics and metadata that every episode carries, and return it.

    What a user's own rollout, or a rollout inside it, wrote under these names is kept or added to.

    Args:
        episode: An episode whose play is over.
        started_s: `time.perf_counter()` when it began.
        retries: Requests sent again, plus episodes played again.
    """
    episode.stop_reason = episode.stop_reason or StopReason.DONE
    kind = episode.failure.kind if episode.failure else None
    if kind is None and episode.stop_reason in _LIMITS:
        kind = FailureKind.LIMIT
    own = episode.metrics
    own.setdefault("turns", model_turns(episode))
    own.setdefault("tool_errors", 0)
    own["error"] = episode.failure is not None or bool(own.get("error"))
    own["truncated"] = episode.stop_reason in _CUT_OFF or bool(own.get("truncated"))
    own["retries"] = own.get("retries", 0) + retries
    own["duration_s"] = time.perf_counter() - started_s
    episode.metadata["stop_reason"] = str(episode.stop_reason)
    episode.metadata["failure_kind"] = str(kind) if kind else None
    return episode
