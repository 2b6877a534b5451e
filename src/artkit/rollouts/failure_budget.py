"""When failed rollouts stop a gather."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from artkit.bridge import is_serving_unavailable
from artkit.episodes import FailureKind
from artkit.episodes.failure_causes import by_count
from artkit.errors import AllRolloutsFailedError, ConfigurationError, OutageError
from artkit.rollouts.replies import Unanswered
from artkit.transport import is_connection_failure, status_code

if TYPE_CHECKING:
    from artkit.episodes import FailureRecord

__all__ = ["FailureBudget", "allowed_failures"]

# So many rollouts in a row without a connection, each after its own retries, and no reply to any other meanwhile, is an
# outage and not bad luck; and so is every rollout of a smaller gather.
_OUTAGE_ROLLOUTS = 16


class FailureBudget:
    """Counts the failures of one gather and says when they stop it.

    Args:
        rollouts: How many rollouts the gather starts.
        max_exceptions: How many may fail; strictly between 0 and 1 a share of `rollouts`. None lets all but the last
            one fail: a gather in which every rollout failed always stops.

    Raises:
        ConfigurationError: `max_exceptions` is neither a count nor a share.
    """

    def __init__(self, rollouts: int, max_exceptions: float | None) -> None:
        if max_exceptions is not None and not _is_budget(max_exceptions):
            raise ConfigurationError(
                f"max_exceptions={max_exceptions!r} is neither a count nor a share",
                "give a count, a share strictly between 0 and 1, or None",
            )
        self._rollouts = rollouts
        self._max_exceptions = max_exceptions
        self._allowed = None if max_exceptions is None else allowed_failures(max_exceptions, rollouts)
        self._kinds: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._first: tuple[FailureRecord, BaseException | None] | None = None
        self._unanswered = Unanswered()

    def add(self, rollouts: int) -> None:
        """Note that so many more are started, in place of some that failed. No more may fail for that."""
        self._rollouts += rollouts

    @property
    def unanswered(self) -> Unanswered:
        """Those in a row that found no connection; to be told of each reply and of each rollout that did not fail."""
        return self._unanswered

    def fail(
        self,
        record: FailureRecord,
        error: BaseException | None = None,
        request_error: BaseException | None = None,
    ) -> None:
        """Note a failure.

        Args:
            record: What went wrong.
            error: The exception, where there was no episode.
            request_error: The error of a request to the model that it was or came from, if it did.

        Raises:
            OutageError: It is fatal, or too many rollouts in a row found no connection.
            AllRolloutsFailedError: No rollout is left that could succeed, or more failed than allowed.
        """
        self._kinds[str(record.kind)] += 1
        self._causes[record.headline] += 1
        self._first = self._first or (record, error)
        if record.kind is FailureKind.FATAL:
            is_of_model = request_error is not None or (error is not None and is_serving_unavailable(error))
            raise OutageError(
                f"a rollout met a failure that no other can escape: {record}",
                "check the model's name, its inference_base_url and inference_api_key, and that its server runs"
                if is_of_model
                else "mend it and start again: the run resumes; or change the rule that calls it fatal",
            ) from error
        self._note_connection(record, request_error)
        self._stop_if_spent()

    def keep(self, record: FailureRecord, request_error: BaseException | None = None) -> None:
        """Note a failure that is none of the gather's, for its episode stays in the group.

        Args:
            record: What went wrong.
            request_error: As for `fail`.

        Raises:
            OutageError: Too many rollouts in a row found no connection.
        """
        self._note_connection(record, request_error)

    def _note_connection(self, record: FailureRecord, request_error: BaseException | None) -> None:
        # A refusal is an answer. What else went wrong says nothing of whether the server can be reached now.
        if request_error is None:
            return
        if status_code(request_error) is not None:
            self._unanswered.note_reply()
        if not is_connection_failure(request_error):
            return
        self._unanswered.count += 1
        if self._unanswered.count >= min(_OUTAGE_ROLLOUTS, self._rollouts):
            who = "the only rollout" if self._rollouts == 1 else f"{self._unanswered.count} rollouts in a row"
            raise OutageError(
                f"{who} found no connection to the model's server: {record}",
                "see that the server runs and can be reached, then start again: the run resumes",
            ) from request_error

    def _stop_if_spent(self) -> None:
        failed, allowed = self._kinds.total(), self._allowed
        is_every_one = failed == self._rollouts
        if self._first is None or not (is_every_one or (allowed is not None and failed > allowed)):
            return
        first, cause = self._first
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._kinds.items()))
        limit = "" if is_every_one else f", more than max_exceptions={self._max_exceptions!r} allows"
        where = f" ({first.where})" if first.where else ""
        causes = f"; all of them: {by_count(self._causes)}" if len(self._causes) > 1 else ""
        raise AllRolloutsFailedError(
            f"{failed}/{self._rollouts} rollouts failed ({kinds}){limit}; the first: {first}{where}{causes}",
            "mend the first cause; `gathered` of this error has every traceback: `failure.traceback` of an episode "
            "in its `lost`, and `traceback` of what is in `group.exceptions` of its `groups`",
        ) from cause


def allowed_failures(max_exceptions: float, rollouts: int) -> float:
    """Return how many of so many rollouts may fail.

    >>> allowed_failures(0.25, 8), allowed_failures(1, 8)
    (2.0, 1)
    """
    return max_exceptions * rollouts if 0 < max_exceptions < 1 else max_exceptions


def _is_budget(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return False
    return value < 1 or value == math.inf or float(value).is_integer()
