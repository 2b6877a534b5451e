"""When a judge fails too often to go on with."""

from __future__ import annotations

from collections import deque

from artkit.errors import ConfigurationError, JudgeError, OutageError
from artkit.rewards.settings import is_number

__all__ = ["RecentFailures"]

# Enough groups that one or two unlucky ones don't stop a run at the default of a half, and few enough that a judge
# which broke down is noticed within a step or two.
_WINDOW = 20


class RecentFailures:
    """Watches the last 20 groups that were put before the judge.

    Args:
        max_rate: The share of those 20 that it may fail on, in [0, 1]. At 0 the first failure stops the run.

    Raises:
        ConfigurationError: `max_rate` is no share.
    """

    def __init__(self, max_rate: float) -> None:
        if not (is_number(max_rate) and 0 <= max_rate <= 1):
            raise ConfigurationError(f"max_failure_rate={max_rate!r} is no share", "give one in [0, 1]")
        self._max_rate = max_rate
        self._failed: deque[bool] = deque(maxlen=_WINDOW)

    def succeed(self) -> None:
        """Note a verdict."""
        self._failed.append(False)

    def fail(self, error: JudgeError) -> None:
        """Note a failure for good.

        Raises:
            OutageError: It is one too many; names the judge's last words.
        """
        self._failed.append(True)
        failures = sum(self._failed)
        if failures > self._max_rate * _WINDOW:
            raise OutageError(
                f"the judge failed on {failures} of the last {len(self._failed)} groups, more than "
                f"max_failure_rate={self._max_rate:g} of {_WINDOW} allows; the last: {error.problem}",
                f"{error.hint}; then start again: the run resumes",
            ) from error
