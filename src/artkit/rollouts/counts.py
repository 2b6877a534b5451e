"""How the rollouts of a gather ended, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["GatherCounts"]


@dataclass(frozen=True, kw_only=True)
class GatherCounts:
    """How the rollouts of one gather ended: `started == grouped + sum(lost.values()) + sum(failed.values())`.

    Attributes:
        started: Rollouts that were started.
        grouped: Episodes that are in a group: scored, where a reward was given.
        lost: Episodes that left their group, by kind of failure; "reward" are those that could not be scored.
        failed: Rollouts without an episode (they failed before the model's first turn), by kind of failure.
        alike: How many of `lost["reward"]` had no sibling to differ from, so that a relative reward did not compare
            them: they teach nothing, but nothing has failed.
    """

    started: int = 0
    grouped: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    alike: int = 0

    @property
    def failures(self) -> int:
        """Rollouts that failed in some way, or could not be scored."""
        return self.started - self.grouped - self.alike

    def __add__(self, other: GatherCounts) -> GatherCounts:
        return GatherCounts(
            started=self.started + other.started,
            grouped=self.grouped + other.grouped,
            lost=Counter(self.lost) + Counter(other.lost),
            failed=Counter(self.failed) + Counter(other.failed),
            alike=self.alike + other.alike,
        )

    def __str__(self) -> str:
        parts = [f"{self.grouped} of {self.started} rollouts grouped"]
        for name, counts in (("lost", self.lost), ("failed", self.failed)):
            parts += [f"{count} {name} ({kind})" for kind, count in sorted(counts.items())]
        if self.alike:
            parts.append(f"{self.alike} of these with nothing to compare")
        return ", ".join(parts)
