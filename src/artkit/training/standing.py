"""How a validation stands beside the first and the best of its set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from artkit.validation import Comparison, compare

__all__ = ["Mark", "Standing"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A validation that later ones are held against.

    Attributes:
        step: The step that was validated.
        mean: Its mean reward.
        scores: The mean reward of each scenario, by its id.
    """

    step: int
    mean: float
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The first and the best validation of one set in a run, of those that could score enough to rank.

    Attributes:
        first: The first of them.
        best: The one with the highest mean; among equals the earliest.
    """

    first: Mark
    best: Mark

    @classmethod
    def begun(cls, mark: Mark) -> Self:
        """Return the standing after the first validation."""
        return cls(first=mark, best=mark)

    def after(self, mark: Mark) -> Self:
        """Return the standing after one more validation; one of a step that was marked already takes its place."""
        first = mark if mark.step == self.first.step else self.first
        is_better = mark.mean > self.best.mean or mark.step == self.best.step
        return replace(self, first=first, best=mark if is_better else self.best)

    def compare(self, scores: Mapping[str, float]) -> dict[str, tuple[int, Comparison]]:
        """Compare a later validation with the first and with the best, on the scenarios that both could score.

        Returns:
            By "first" and "best": the step, and the comparison with it. "best" is left out where it is the first.
        """
        marks = {"first": self.first, "best": self.best}
        if self.best.step == self.first.step:
            del marks["best"]
        return {name: (mark.step, compare(mark.scores, scores)) for name, mark in marks.items()}
