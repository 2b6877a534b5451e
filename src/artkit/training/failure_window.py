"""The failure rate over the last episodes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from artkit.episodes import Episode
from artkit.errors import OutageError

if TYPE_CHECKING:
    from artkit.rollouts import GatheredGroups

__all__ = ["FailureWindow"]

_WINDOW = 100


class FailureWindow:
    """Watches the last episodes that were attempted, those that could not be scored included.

    Whole gathers are looked at, the newest that make up at least 100 episodes: which of a gather came last says
    nothing. Nothing is judged before there are 100.

    Args:
        max_rate: The share that may fail, in [0, 1].

    Attributes:
        cause: What the last failure was, in words; empty before the first.
    """

    def __init__(self, max_rate: float) -> None:
        self._max_rate = max_rate
        self._gathers: deque[tuple[int, int]] = deque()  # failed and started, oldest first
        self.cause = ""

    def note(self, gathered: GatheredGroups) -> None:
        """Take in one gather.

        Raises:
            OutageError: Too many of the last episodes failed; names a cause and the counts.
        """
        counts = gathered.counts
        self._gathers.append((counts.failures, counts.started))
        self.cause = _last_cause(gathered) or self.cause
        attempted = sum(started for _, started in self._gathers)
        while attempted - self._gathers[0][1] >= _WINDOW:
            attempted -= self._gathers.popleft()[1]
        failed = sum(failed for failed, _ in self._gathers)
        if attempted >= _WINDOW and failed > self._max_rate * attempted:
            raise OutageError(
                f"{failed} of the last {attempted} episodes failed, more than max_failure_rate={self._max_rate:g} "
                f"allows; the last cause: {self.cause}",
                "mend the cause and start again: the run resumes; or raise max_failure_rate",
            )


def _last_cause(gathered: GatheredGroups) -> str:
    for episode in reversed(gathered.lost):
        if isinstance(episode, Episode) and episode.failure:
            return f"{episode.failure.kind} failure, {episode.failure}"
    for group in reversed(gathered.groups):
        for exception in reversed(group.exceptions):
            return f"{exception.type}: {exception.message}"
    return ""
