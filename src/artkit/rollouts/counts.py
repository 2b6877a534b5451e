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
        causes: What the others failed of, in one line each, and how often; `str(counts)` leaves them out.
        late_results: Attempts that went on after they were cancelled. Whatever comes of them, and whenever, is
            discarded; no other number here counts it.
        abandoned: How many rollouts still ran some time after they were cancelled and were given up.
        refilled: How many of `started` were played in place of members that had left their group.
        replayed: How often an episode was played again after it had failed; no other number here counts it.
    """

    started: int = 0
    grouped: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    alike: int = 0
    causes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    late_results: int = 0
    abandoned: int = 0
    refilled: int = 0
    replayed: int = 0

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
            causes=Counter(self.causes) + Counter(other.causes),
            late_results=self.late_results + other.late_results,
            abandoned=self.abandoned + other.abandoned,
            refilled=self.refilled + other.refilled,
            replayed=self.replayed + other.replayed,
        )

    def __str__(self) -> str:
        parts = [f"{self.grouped} of {self.started} rollouts grouped"]
        for name, counts in (("lost", self.lost), ("failed", self.failed)):
            parts += [f"{count} {name} ({kind})" for kind, count in sorted(counts.items())]
        if self.alike:
            parts.append(f"{self.alike} of these with nothing to compare")
        for name in ("refilled", "replayed", "late_results", "abandoned"):
            if count := getattr(self, name):
                parts.append(f"{count} {name.replace('_', ' ')}")
        return ", ".join(parts)
