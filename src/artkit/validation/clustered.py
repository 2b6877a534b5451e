"""A mean over scenarios, and its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

__all__ = ["clustered_mean"]


def clustered_mean(scores: Sequence[Sequence[float]]) -> tuple[float, float | None]:
    """Return the mean over all n scores and its standard error, clustered by scenario, of which there are G.

        SE^2 = G / (G - 1) * sum over scenarios of (sum over its scores of (score - mean))^2 / n^2

    With as many scores in each scenario, it is the standard error of the scenarios' means; with one in each, the usual
    one. Nothing varies from scenario to scenario: exactly 0.

    Args:
        scores: The finite scores of each scenario; one scenario or more, none empty.

    Returns:
        The mean, never outside the scores, and the standard error: None for one scenario, which tells nothing of
        others.

    Source: Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, with the factor G / (G - 1) of Cameron and
    Miller (2015), A Practitioner's Guide to Cluster-Robust Inference, Journal of Human Resources 50, 317-372. The
    former's formula corrects the independent part alone, by n / (n - 1): where each scenario has one score, they agree.
    """
    values = [score for scenario in scores for score in scenario]
    # Rounding may put the mean of equal scores beside them.
    mean = min(max(fmean(values), min(values)), max(values))
    count = len(scores)
    if count == 1:
        return mean, None
    residuals = [math.fsum(score - mean for score in scenario) for scenario in scores]
    return mean, math.sqrt(count / (count - 1)) * math.hypot(*residuals) / len(values)
