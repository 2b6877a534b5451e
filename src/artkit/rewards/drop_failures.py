"""Drops the groups in which something failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.episodes import Episode, FailureKind
from artkit.errors import ConfigurationError
from artkit.rewards.group_filter import GroupFilter
from artkit.rewards.lost_members import lost_members

if TYPE_CHECKING:
    import art

__all__ = ["DropFailures"]


@dataclass(frozen=True, slots=True, repr=False)
class DropFailures(GroupFilter):
    """Drops a group in which a rollout failed in one of the given ways, whether it stayed in the group or left it.

    The hard rollouts of a task fail more often than the easy ones, so the mean of those that are left is too high, and
    the advantages with it. Losing the whole group keeps the data honest, at the price of the siblings.

    Attributes:
        kinds: Any of "limit", "environment", "infrastructure" and "reward". The other kinds are never in a group:
            "tool" is answered to the model, "fatal" stops the run.

    Raises:
        ConfigurationError: There is no kind, or one that is never in a group.

    >>> DropFailures({"reward", "limit"})
    DropFailures({'limit', 'reward'})
    """

    kinds: Collection[FailureKind | str]

    def __post_init__(self) -> None:
        allowed = [str(kind) for kind in FailureKind if kind not in {FailureKind.TOOL, FailureKind.FATAL}]
        if isinstance(self.kinds, str):
            raise ConfigurationError(f"kinds={self.kinds!r} is not a set of kinds", f"write {{{self.kinds!r}}}")
        if not self.kinds:
            raise ConfigurationError(f"kinds={self.kinds!r} is empty", f"choose from {', '.join(allowed)}")
        for kind in self.kinds:
            if kind not in allowed:
                msg = f"kinds={kind!r} is no kind of failure that a group can have"
                raise ConfigurationError(msg, f"choose from {', '.join(allowed)}")
        object.__setattr__(self, "kinds", frozenset(FailureKind(kind) for kind in self.kinds))

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        """Return which failures the group had, or None."""
        counts = Counter(lost_members(group))
        counts.update(kind for member in group.trajectories if (kind := _kind(member)) is not None)
        found = [f"{counts[kind]} of kind {kind}" for kind in map(FailureKind, sorted(self.kinds)) if counts[kind]]
        return f"failures: {', '.join(found)}" if found else None

    def __repr__(self) -> str:
        return f"DropFailures({{{', '.join(repr(str(kind)) for kind in sorted(self.kinds))}}})"


def _kind(member: art.Trajectory) -> FailureKind | None:
    if isinstance(member, Episode) and member.failure is not None:
        return member.failure.kind
    kind = member.metadata.get("failure_kind")  # a limit is no failure of the episode's; it is told here alone
    return FailureKind(kind) if isinstance(kind, str) and kind in list(FailureKind) else None
