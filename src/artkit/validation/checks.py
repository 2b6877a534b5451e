"""What is refused: settings when they are given, scores when they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from artkit.errors import ConfigurationError, RewardError

__all__ = ["check_confidence", "check_nested", "check_score", "check_seed"]

T = TypeVar("T")


def check_confidence(value: object) -> None:
    """Refuse a confidence that is not from 0.5 to 0.9999."""
    if not isinstance(value, int | float) or not 0.5 <= value <= 0.9999:
        raise ConfigurationError(f"confidence={value!r} is not from 0.5 to 0.9999", "0.95 gives 95 % intervals")


def check_seed(value: object) -> None:
    """Refuse a seed that is no whole number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigurationError(f"seed={value!r} is no whole number of 0 or more", "the default is 0")


def check_score(what: str, value: object) -> float:
    """Return `value` as a float, or refuse it where it is no finite number; `what` says where it stands."""
    try:
        score = math.nan if isinstance(value, str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise RewardError(f"{what}: {value!r} is no finite number", "leave out what could not be scored")
    return score


def check_nested(what: str, value: Iterable[Sequence[T]]) -> list[Sequence[T]]:
    """Return `value` as a list, or refuse it where it does not hold one sequence per scenario."""
    scenarios = list(value)
    for scenario in scenarios:
        if not isinstance(scenario, Iterable):
            msg = f"{what}: {scenario!r} stands where a sequence belongs"
            raise ConfigurationError(msg, "give one sequence per scenario, as in [[1.0, 0.0], [1.0]]")
    return scenarios
