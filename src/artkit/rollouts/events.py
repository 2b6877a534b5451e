"""What `gather_groups` tells while it works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from artkit.episodes import Episode, FailureRecord

__all__ = ["GatherNotice", "GatherWaits", "LoopHeldUp", "MemberFinished"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFinished:
    """One rollout of a group is over.

    Attributes:
        scenario_id: The scenario that was played.
        member: The position in the group, from 0.
        seconds: How long the rollout took, without the wait for its turn.
        episode: The episode, whole or partial; None where there is none.
        failure: What went wrong, or None.
    """

    scenario_id: str
    member: int
    seconds: float
    episode: Episode | None
    failure: FailureRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherWaits:
    """No rollout has ended for a while, and no group was scored.

    Attributes:
        scenario_ids: The scenarios that are being played, in the order they were begun.
        running: How many rollouts of them.
        seconds: Since when nothing has ended.
        scoring: The scenario of each group that is being scored, in the order this was begun.
    """

    scenario_ids: tuple[str, ...]
    running: int
    seconds: float
    scoring: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = []
        if self.running:
            facts.append(f"{self.running} are running, of {_some(self.scenario_ids)}")
        if self.scoring:
            count = "1 group is" if len(self.scoring) == 1 else f"{len(self.scoring)} groups are"
            facts.append(f"{count} being scored, of {_some(self.scoring)}")
        what = "no rollout has ended" if self.running else "no group was scored"
        return f"{what} for {self.seconds:.0f} s; {'; '.join(facts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHeldUp:
    """The event loop was held up, and every rollout with it: something that should have waited, or computed elsewhere.

    Attributes:
        seconds: For how long.
        where: The call that did it, such as "game.py:12 in step"; "" where it was many: too many rollouts at once.
    """

    seconds: float
    where: str

    def __str__(self) -> str:
        where = f"by {self.where}" if self.where else "by many rollouts at once"
        return f"the event loop was held up for {self.seconds:.1f} s {where}; every rollout had to wait"


GatherNotice: TypeAlias = GatherWaits | LoopHeldUp


def _some(ids: Iterable[str]) -> str:
    each = list(dict.fromkeys(ids))
    return ", ".join([*each[:_SHOWN], *(["…"] if len(each) > _SHOWN else [])])
