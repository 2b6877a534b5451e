"""The checkpoint policy: which checkpoints to keep, decided without touching any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.checkpoints.decision import Decision, Verdict

if TYPE_CHECKING:
    from artkit.checkpoints.metric_history import MetricHistory

__all__ = ["AnyPolicy", "CheckpointPolicy"]


class CheckpointPolicy(ABC):
    """Decides which checkpoints to keep. Pure: it goes by what it is given, and deletes nothing.

    Whatever the policy, the newest checkpoint is kept, for the run goes on from it, and a step that was not saved is
    never named. Subclasses are frozen dataclasses; their `repr` is the policy in words.

    >>> from artkit.checkpoints import KeepBest, KeepLatest, MetricHistory
    >>> policy = KeepBest() | KeepLatest()
    >>> history = MetricHistory.from_values({"val/reward": {1: 0.2, 2: 0.9, 3: 0.5}})
    >>> print(policy.decide({1, 2, 3}, history))
    delete 1: val/reward is 0.2, the best is 0.9 at step 2; not among the latest 1
    keep 2: val/reward is 0.9, the best
    keep 3: among the latest 1; the newest is always kept
    """

    __slots__ = ()

    @property
    def ranks_by(self) -> frozenset[str]:
        """The metrics that the policy needs in the history to delete anything by them."""
        return frozenset()

    @abstractmethod
    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return a verdict for each saved step; a step without one is not kept.

        Args:
            saved: The steps that have a checkpoint; never empty.
            history: What was logged, finite values only.
        """

    def decide(self, saved: Iterable[int], history: MetricHistory) -> Decision:
        """Return what to keep of the checkpoints at the steps `saved`, and why."""
        steps = frozenset(saved)
        if not steps:
            return Decision(keep=frozenset(), why={})
        newest = max(steps)
        verdicts = self.judge(steps, history)
        keep: set[int] = set()
        why: dict[int, str] = {}
        for step in sorted(steps):
            verdict = verdicts.get(step, Verdict(keep=False, why=f"{self!r} does not ask for it"))
            reasons = [verdict.why] if verdict.keep or step != newest else []
            if step == newest:
                reasons.append("the newest is always kept")
            if step == newest or verdict.keep:
                keep.add(step)
            why[step] = "; ".join(reasons)
        return Decision(keep=frozenset(keep), why=why)

    def __or__(self, other: CheckpointPolicy) -> CheckpointPolicy:
        """Return the policy that keeps what either keeps; joined policies are flat and hold nothing twice."""
        if not isinstance(other, CheckpointPolicy):
            return NotImplemented
        policies = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        return policies[0] if len(policies) == 1 else AnyPolicy(policies)


@dataclass(frozen=True, slots=True, repr=False)
class AnyPolicy(CheckpointPolicy):
    """Keeps what any of its policies keeps; `|` makes it.

    Attributes:
        policies: What was joined, in order.
    """

    policies: tuple[CheckpointPolicy, ...]

    @property
    def ranks_by(self) -> frozenset[str]:
        """The metrics that any of the policies needs."""
        return frozenset().union(*(policy.ranks_by for policy in self.policies))

    def judge(self, saved: frozenset[int], history: MetricHistory) -> Mapping[int, Verdict]:
        """Return, for each step, the reasons of those that keep it, or of all where none does."""
        judged = [policy.judge(saved, history) for policy in self.policies]
        joined = {}
        for step in saved:
            verdicts = [verdicts[step] for verdicts in judged if step in verdicts]
            keep = any(verdict.keep for verdict in verdicts)
            reasons = (verdict.why for verdict in verdicts if verdict.keep == keep)
            if verdicts:
                joined[step] = Verdict(keep=keep, why="; ".join(reasons))
        return joined

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.policies))


def _parts(policy: CheckpointPolicy) -> tuple[CheckpointPolicy, ...]:
    return policy.policies if isinstance(policy, AnyPolicy) else (policy,)
