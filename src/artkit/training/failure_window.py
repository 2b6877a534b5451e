"""The failure rate over the last episodes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from artkit.episodes import Episode
from artkit.errors import NothingToCompareError, OutageError

if TYPE_CHECKING:
    from artkit.rollouts import GatheredGroups

__all__ = ["FailureWindow", "last_cause"]

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
        self.cause = last_cause(gathered) or self.cause
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


def last_cause(gathered: GatheredGroups) -> str:
    """Return what the last failure of a gather was, in words; "" where nothing failed.

    That a relative reward had nothing to compare is no failure; it is told where there is nothing else.
    """
    records = [episode.failure for episode in reversed(gathered.lost) if isinstance(episode, Episode)]
    found = [(record.type, f"{record.kind} failure, {record}") for record in records if record is not None]
    found += [
        (exception.type, f"{exception.type}: {exception.message}")
        for group in reversed(gathered.groups)
        for exception in reversed(group.exceptions)
    ]
    failures = (text for kind, text in found if kind != NothingToCompareError.__qualname__)
    return next(failures, found[0][1] if found else "")
