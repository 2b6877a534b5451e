"""Metrics that ART's log can neither fail on nor misreport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from artkit.bridge.safe_values import safe_number, safe_text

__all__ = ["loggable_metrics"]

# ART computes these itself; a metric of the same name would replace or shift them.
_COMPUTED = frozenset({"reward", "reward_std_dev", "exception_rate", "exceptions"})
_SPLITS = frozenset({"train", "val", "test"})
_PREFIX = "metric_"


def loggable_metrics(
    metrics: Mapping[str, Any], *, is_taken: Callable[[str], bool] = lambda _: False
) -> dict[str, float]:
    """Return the finite numbers among `metrics`, under names that ART neither computes itself nor refuses.

    Args:
        metrics: Names and values.
        is_taken: Says which further names belong to somebody else; they get the prefix `metric_` too.

    >>> loggable_metrics({"loss/train": 0.5, "loss/kl": float("nan"), "reward": 1, "note": "x"})
    {'loss/train': 0.5, 'metric_reward': 1}
    """
    safe: dict[str, float] = {}
    for name, value in metrics.items():
        if (number := safe_number(value)) is not None:
            safe[_metric_name(safe_text(str(name)), metrics, is_taken)] = number
    return safe


def _metric_name(name: str, metrics: Mapping[str, Any], is_taken: Callable[[str], bool]) -> str:
    section, _, rest = name.partition("/")
    clashes = name in _COMPUTED or (section in _SPLITS and rest in _COMPUTED)
    # ART raises at these: an old spelling, a cost without a name, and its own running sums.
    refused = name.startswith("costs_") or name == "costs/" or rest == "cum" or rest.startswith("cum/")
    if not (clashes or refused or is_taken(name)):
        return name
    name = _PREFIX + name
    while name in metrics:
        name = _PREFIX + name
    return name
