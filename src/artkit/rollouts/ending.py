"""The end of an episode: its last metrics, and what a failure made of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from artkit.episodes import FailureKind, FailureRecord, StopReason

if TYPE_CHECKING:
    from artkit.episodes import Episode

__all__ = ["fail", "finish"]

_LIMITS = {StopReason.MAX_TURNS, StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}
_CUT_OFF = {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}


def fail(episode: Episode, error: BaseException, kind: FailureKind, *, timed_out: bool = False) -> None:
    """Write onto a partial episode what ended it."""
    if kind is FailureKind.LIMIT:
        episode.stop_reason = StopReason.CONTEXT_OVERFLOW
        episode.log(f"context overflow: {error}")
        return
    episode.failure = FailureRecord.from_exception(error, kind)
    episode.stop_reason = StopReason.TIMEOUT if timed_out else StopReason.ERROR
    episode.log(f"{kind} failure: {episode.failure}")


def finish(episode: Episode, *, started_s: float, retries: int) -> Episode:
    """Write the metrics and metadata that every episode carries, and return it.

    Args:
        episode: An episode whose play is over.
        started_s: `time.perf_counter()` when it began.
        retries: Requests sent again, plus episodes played again.
    """
    kind = episode.failure.kind if episode.failure else None
    if kind is None and episode.stop_reason in _LIMITS:
        kind = FailureKind.LIMIT
    episode.metrics.setdefault("turns", 0)
    episode.metrics.setdefault("tool_errors", 0)
    episode.metrics["error"] = episode.failure is not None
    episode.metrics["truncated"] = episode.stop_reason in _CUT_OFF
    episode.metrics["retries"] = retries
    episode.metrics["duration_s"] = time.perf_counter() - started_s
    episode.metadata["stop_reason"] = str(episode.stop_reason) if episode.stop_reason else None
    episode.metadata["failure_kind"] = str(kind) if kind else None
    return episode
