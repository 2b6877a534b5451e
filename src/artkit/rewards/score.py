"""What one episode is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

__all__ = ["ROUNDING", "Score"]

ROUNDING = 1e-9
"""Rewards that are no further apart are equal: their difference is a rounding error, not a judgement."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one episode is worth.

    Nothing is checked here but where the adapter writes it, so that one bad score costs one member and not its
    siblings.

    Attributes:
        value: The reward, finite; None where the episode could not be scored, and `explanation` then says why.
        metrics: Signals to log beside the reward: finite numbers and bools.
        explanation: Why this value; goes to the trajectory's logs.
    """

    value: float | None
    _: KW_ONLY
    metrics: Mapping[str, float | int | bool] = field(default_factory=dict)
    explanation: str | None = None
