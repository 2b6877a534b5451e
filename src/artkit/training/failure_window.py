"""How many of the last episodes failed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NoReturn

from artkit.episodes import Episode
from artkit.episodes.failure_causes import by_count
from artkit.errors import NothingToCompareError, OutageError
from artkit.rollouts import GatherCounts

if TYPE_CHECKING:
    from artkit.rollouts import GatheredGroups

__all__ = ["FailureWindow", "causes_of", "last_cause"]

_WINDOW = 100


class FailureWindow:
    """Watches the last episodes that were attempted, those that could not be scored included.

    Whole gathers are looked at, the newest that make up at least 100 episodes: which of a gather came last says
    nothing. The share is not judged before there are 100; the count is from the first.

    Args:
        max_rate: The share that may fail, in [0, 1].
        max_failures: How many may fail; None is no limit.

    Attributes:
        cause: What the last failure was, in words; empty before the first.
    """

    def __init__(self, max_rate: float, max_failures: int | None = None) -> None:
        self._max_rate = max_rate
        self._max_failures = max_failures
        self._gathers: deque[GatherCounts] = deque()  # oldest first
        self.cause = ""

    def note(self, gathered: GatheredGroups) -> None:
        """Take in one gather.

        Raises:
            OutageError: Too many of the last episodes failed; names the causes by count.
        """
        self._gathers.append(gathered.counts)
        self.cause = last_cause(gathered) or self.cause
        attempted = sum(counts.started for counts in self._gathers)
        while attempted - self._gathers[0].started >= _WINDOW:
            attempted -= self._gathers.popleft().started
        seen = sum(self._gathers, GatherCounts())
        if self._max_failures is not None and seen.failures > self._max_failures:
            self._stop(seen, f"max_recent_failures={self._max_failures}")
        if attempted >= _WINDOW and seen.failures > self._max_rate * attempted:
            self._stop(seen, f"max_failure_rate={self._max_rate:g}")

    def _stop(self, seen: GatherCounts, limit: str) -> NoReturn:
        raise OutageError(
            f"{seen.failures} of the last {seen.started} episodes failed, more than {limit} allows: "
            f"{by_count(seen.causes)}",
            f"mend the first cause and start again: the run resumes; or raise {limit.partition('=')[0]}",
        )


def causes_of(gathered: GatheredGroups) -> str:
    """Return what the failures of a gather were, in words: several causes by count, one alone in full."""
    causes = gathered.counts.causes
    return by_count(causes) if len(causes) > 1 else last_cause(gathered)


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
