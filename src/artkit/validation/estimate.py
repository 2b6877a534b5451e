"""The estimate: a mean, and how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from artkit.validation.bootstrap import bootstrap_interval
from artkit.validation.checks import check_confidence, check_nested, check_score, check_seed
from artkit.validation.clustered import clustered_mean
from artkit.validation.wilson import effective_size, wilson_interval

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, and how far to trust it.

    Attributes:
        mean: The mean over all scores.
        standard_error: Its standard error, clustered by scenario. None for one scenario, which tells nothing of
            others.
        low: The lower end of the interval. None for one scenario.
        high: The upper end of the interval. None for one scenario.
        scores: The number of scores, 1 or more.
        scenarios: The number of scenarios with a score, 1 or more.
        method: How the interval was made: "wilson", "bootstrap", or "none" where there is none.
    """

    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    scores: int
    scenarios: int
    method: Literal["wilson", "bootstrap", "none"]


def estimate(scores: Sequence[Sequence[float]], *, confidence: float = 0.95, seed: int = 0) -> Estimate | None:
    """Return the mean of `scores`, with its standard error and an interval, as an estimate for scenarios like these.

    The mean is over all scores, as ART logs it. The standard error is clustered by scenario (`clustered_mean`):
    rollouts of one scenario resemble each other. The interval is Wilson's with an effective sample size where every
    score is 0 or 1 (`wilson_interval`, `effective_size`), and otherwise the bootstrap over scenarios with one added
    that was not seen (`bootstrap_interval`): 0 and 1 count as possible although no score was either.

    Where nothing varies from scenario to scenario, the standard error is 0. Both intervals have a width even then.

    Args:
        scores: One sequence of scores per scenario, one score per rollout; bools count as 0 and 1. Empty ones are
            ignored.
        confidence: How often the interval should hold the truth, 0.5 to 0.9999.
        seed: Of the bootstrap, 0 or more. The same seed gives the same interval.

    Returns:
        The estimate, or None where there is no score at all.

    Raises:
        RewardError: If a score is no finite number.
        ConfigurationError: If `scores` is not nested, or `confidence` or `seed` is out of range.

    >>> found = estimate([[1, 1], [0, 1], [0, 0], [1, 1]])
    >>> print(f"{found.mean:.3f} +- {found.standard_error:.3f}, {found.low:.3f} to {found.high:.3f}, {found.method}")
    0.625 +- 0.239, 0.219 to 0.908, wilson
    """
    check_confidence(confidence)
    check_seed(seed)
    groups = [[check_score("scores", score) for score in scenario] for scenario in check_nested("scores", scores)]
    groups = [group for group in groups if group]
    if not groups:
        return None
    mean, standard_error = clustered_mean(groups)
    low, high, method = _interval(groups, mean, standard_error, confidence, seed)
    return Estimate(
        mean=mean,
        standard_error=standard_error,
        low=low,
        high=high,
        scores=sum(map(len, groups)),
        scenarios=len(groups),
        method=method,
    )


def _interval(
    groups: list[list[float]], mean: float, standard_error: float | None, confidence: float, seed: int
) -> tuple[float | None, float | None, Literal["wilson", "bootstrap", "none"]]:
    if standard_error is None:
        return None, None, "none"
    if all(score in (0.0, 1.0) for group in groups for score in group):
        size = effective_size(list(map(len, groups)), mean, standard_error, confidence=confidence)
        return *wilson_interval(mean, size, confidence=confidence), "wilson"
    low, high = bootstrap_interval(groups, confidence=confidence, seed=seed)
    # A very skewed distribution, or rounding, may put an end of it on the wrong side of the mean.
    return min(low, mean), max(high, mean), "bootstrap"
