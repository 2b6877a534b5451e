"""What follows from a failure: its kind, and whether the episode may be trained on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from artkit.bridge import is_serving_unavailable
from artkit.episodes.failure import FailureKind
from artkit.errors import ConfigurationError
from artkit.transport import is_context_overflow, is_fatal

__all__ = ["FailurePolicy", "Waiting"]

Waiting = Literal["model", "environment", "reward"]
"""Whom an episode was waiting for when it failed."""

_ALWAYS_KEPT = frozenset({FailureKind.TOOL, FailureKind.LIMIT})
_NEVER_KEPT = frozenset({FailureKind.REWARD, FailureKind.FATAL})


@dataclass(frozen=True, kw_only=True)
class FailurePolicy:
    """Sorts every exception into one `FailureKind` and says what follows from it.

    A failed rollout still returns its partial episode once the model has replied. When the group is built, an episode
    of a kind that is not kept leaves the group before scoring: its cause joins `group.exceptions` and the episode goes
    to `GatheredGroups.lost` and to the recording. It never becomes reward 0.

    Attributes:
        keep: Kinds that stay in the group besides "tool" and "limit", which always do: any of "environment" and
            "infrastructure". "reward" and "fatal" cannot be kept: there is nothing to train on.
        max_retries: Retries of one model request, with back-off.
        rollout_retries: How often a whole episode is played again, each time in a fresh environment, after a failure
            of the kind "environment" or "infrastructure".

    Raises:
        ConfigurationError: A kind that does not exist or cannot be kept, or a negative count.

    >>> FailurePolicy(keep={"environment"}).keeps(FailureKind.ENVIRONMENT)
    True
    """

    keep: Collection[FailureKind | str] = frozenset()
    max_retries: int = 3
    rollout_retries: int = 0

    def __post_init__(self) -> None:
        names = [str(kind) for kind in FailureKind]
        if isinstance(self.keep, str):
            raise ConfigurationError(f"keep={self.keep!r} is not a set of kinds", f"write keep={{{self.keep!r}}}")
        for kind in self.keep:
            if kind not in names:
                raise ConfigurationError(f"keep={kind!r} is not a failure kind", f"choose from {', '.join(names)}")
            if kind in _NEVER_KEPT:
                raise ConfigurationError(
                    f"keep={str(kind)!r}: such an episode has no reward to train on",
                    'keep "environment" or "infrastructure", or mend the cause',
                )
        for name in ("max_retries", "rollout_retries"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}={getattr(self, name)!r} is negative", "give 0 for no retries")
        object.__setattr__(self, "keep", frozenset(FailureKind(kind) for kind in self.keep))

    def keeps(self, kind: FailureKind | str) -> bool:
        """Whether an episode that failed in this way stays in its group."""
        return kind in _ALWAYS_KEPT or kind in self.keep

    def classify(self, error: BaseException, *, waiting_for: Waiting) -> FailureKind:
        """Return whose failure `error` is, given whom the episode was waiting for."""
        if is_serving_unavailable(error):
            return FailureKind.FATAL
        if waiting_for == "reward":
            return FailureKind.REWARD
        if waiting_for == "environment":
            return FailureKind.ENVIRONMENT
        if is_context_overflow(error):
            return FailureKind.LIMIT
        return FailureKind.FATAL if is_fatal(error) else FailureKind.INFRASTRUCTURE

    def replays(self, kind: FailureKind, *, after: int = 0) -> bool:
        """Whether a whole episode is played again after a failure of this kind, and `after` replays already."""
        return kind in {FailureKind.ENVIRONMENT, FailureKind.INFRASTRUCTURE} and after < self.rollout_retries
