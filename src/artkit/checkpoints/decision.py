"""What a checkpoint policy decided, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Decision", "Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a policy says about one checkpoint.

    Attributes:
        keep: Whether the policy wants it kept.
        why: The reason, in a few words.
    """

    keep: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which checkpoints to keep, with a reason for each that was there.

    Attributes:
        keep: The steps to keep; never one that was not saved.
        why: The reason for every saved step, kept or not, steps ascending.
    """

    keep: frozenset[int]
    why: Mapping[int, str]

    def delete(self, saved: Iterable[int]) -> frozenset[int]:
        """Return the steps to delete: those of `saved` that were decided on and are not kept.

        A step that was saved after the decision was made is not among them.
        """
        return (frozenset(saved) & self.why.keys()) - self.keep

    def __str__(self) -> str:
        return "\n".join(f"{'keep' if step in self.keep else 'delete'} {step}: {why}" for step, why in self.why.items())
