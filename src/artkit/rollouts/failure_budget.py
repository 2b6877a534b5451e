"""When failed rollouts stop a gather."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from artkit.episodes import FailureKind
from artkit.errors import AllRolloutsFailedError, ConfigurationError, OutageError
from artkit.transport import is_connection_failure

if TYPE_CHECKING:
    from artkit.episodes import FailureRecord

__all__ = ["FailureBudget"]

# So many rollouts in a row without a connection, each after its own retries, is an outage and not bad luck.
_OUTAGE_ROLLOUTS = 16


class FailureBudget:
    """Counts the failures of one gather and says when they stop it.

    Args:
        rollouts: How many rollouts the gather starts.
        max_exceptions: How many may fail; strictly between 0 and 1 a share of `rollouts`. None lets all but the last
            one fail: a gather in which every rollout failed always stops.

    Raises:
        ConfigurationError: `max_exceptions` is negative.
    """

    def __init__(self, rollouts: int, max_exceptions: float | None) -> None:
        if max_exceptions is not None and max_exceptions < 0:
            raise ConfigurationError(
                f"max_exceptions={max_exceptions!r} is negative",
                "give a count, a share strictly between 0 and 1, or None",
            )
        self._rollouts = rollouts
        self._max_exceptions = max_exceptions
        self._allowed = rollouts if max_exceptions is None else max_exceptions
        if 0 < self._allowed < 1:
            self._allowed *= rollouts
        self._kinds: Counter[str] = Counter()
        self._first: tuple[FailureRecord, BaseException | None] | None = None
        self._unconnected = 0

    def succeed(self) -> None:
        """Note a rollout that did not fail."""
        self._unconnected = 0

    def fail(
        self,
        record: FailureRecord,
        error: BaseException | None = None,
        request_error: BaseException | None = None,
    ) -> None:
        """Note a failure.

        Args:
            record: What went wrong.
            error: The exception, where there was no episode; an episode that broke off says nothing of whether the
                server can be reached now.
            request_error: The error of a request to the model that `error` is or came from, if it did.

        Raises:
            OutageError: It is fatal, or too many rollouts in a row found no connection.
            AllRolloutsFailedError: No rollout is left that could succeed, or more failed than allowed.
        """
        self._kinds[str(record.kind)] += 1
        self._first = self._first or (record, error)
        first, cause = self._first
        if record.kind is FailureKind.FATAL:
            raise OutageError(
                f"a rollout met a failure that no other can escape: {record}",
                "check the model's name, its inference_base_url and inference_api_key, and that its server runs",
            ) from error
        if error is not None:
            is_unconnected = request_error is not None and is_connection_failure(request_error)
            self._unconnected = self._unconnected + 1 if is_unconnected else 0
        if self._unconnected >= _OUTAGE_ROLLOUTS:
            raise OutageError(
                f"{self._unconnected} rollouts in a row found no connection to the model's server: {record}",
                "see that the server runs and can be reached, then start again: the run resumes",
            ) from error
        failed = self._kinds.total()
        if failed == self._rollouts or failed > self._allowed:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._kinds.items()))
            limit = "" if failed == self._rollouts else f", more than max_exceptions={self._max_exceptions!r} allows"
            where = f" ({first.where})" if first.where else ""
            raise AllRolloutsFailedError(
                f"{failed}/{self._rollouts} rollouts failed ({kinds}){limit}; the first: {first}{where}",
                "mend the first cause; `gathered` of this error has every traceback: `failure.traceback` of an episode "
                "in its `lost`, and `traceback` of what is in `group.exceptions` of its `groups`",
            ) from cause
