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
    """Watches the last 100 attempted episodes, those that could not be scored included.

    Args:
        max_rate: The share that may fail, in [0, 1].
    """

    def __init__(self, max_rate: float) -> None:
        self._max_rate = max_rate
        self._failed: deque[bool] = deque(maxlen=_WINDOW)
        self._cause = ""

    def note(self, gathered: GatheredGroups) -> None:
        """Take in one gather.

        Raises:
            OutageError: Too many of the last 100 episodes failed; names a cause and the counts.
        """
        counts = gathered.counts
        failed = counts.started - counts.grouped
        self._failed.extend([True] * failed + [False] * counts.grouped)
        self._cause = _last_cause(gathered) or self._cause
        total = sum(self._failed)
        if len(self._failed) == _WINDOW and total > self._max_rate * _WINDOW:
            raise OutageError(
                f"{total} of the last {_WINDOW} episodes failed, more than max_failure_rate={self._max_rate:g} "
                f"allows; the last cause: {self._cause}",
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
