"""How a validation stands beside the first and the best of its set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from artkit.validation import Comparison, compare

__all__ = ["Mark", "Standing"]

_MAX_CONFIDENCE = 0.9999


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
        count: How many there were.
    """

    first: Mark
    best: Mark
    count: int = 1

    @classmethod
    def begun(cls, mark: Mark) -> Self:
        """Return the standing after the first validation."""
        return cls(first=mark, best=mark)

    def after(self, mark: Mark) -> Self:
        """Return the standing after one more validation."""
        best = mark if mark.mean > self.best.mean else self.best
        return replace(self, best=best, count=self.count + 1)

    def compare(self, scores: Mapping[str, float]) -> dict[str, tuple[int, Comparison]]:
        """Compare a later validation with the first and with the best, on the scenarios that both could score.

        The best of many was lucky too: a model that never changes would soon be called worse than it. So the interval
        beside it holds for all comparisons with the validations so far at once (Bonferroni: 1 - 0.05 / count).

        Returns:
            By "first" and "best": the step, and the comparison with it. "best" is left out where it is the first.
        """
        found = {"first": (self.first.step, compare(self.first.scores, scores))}
        if self.best.step != self.first.step:
            confidence = min(1 - 0.05 / self.count, _MAX_CONFIDENCE)
            found["best"] = self.best.step, compare(self.best.scores, scores, confidence=confidence)
        return found
