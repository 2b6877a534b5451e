"""Wilson's interval for yes/no scores, and how many of them count where those of a scenario resemble each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

__all__ = ["effective_size", "wilson_interval"]


def wilson_interval(mean: float, size: float, *, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval for a proportion.

    Its ends are the two solutions p of `|mean - p| = z sqrt(p (1 - p) / size)`, where z is the normal quantile. It
    stays within 0 and 1, and has a width where all scores are equal. For a whole `size` it is what
    `scipy.stats.binomtest(...).proportion_ci(method="wilson")` gives; an effective one need not be whole.

    Args:
        mean: The share of ones, 0 to 1.
        size: The number of independent scores, or the effective one; positive.
        confidence: How often the interval should hold the truth.

    Returns:
        The lower and the upper end; `mean` is between them.

    Source: Wilson (1927), Probable Inference, the Law of Succession, and Statistical Inference, Journal of the
    American Statistical Association 22, 209-212.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shrink = 1 + z * z / size
    centre = (mean + z * z / (2 * size)) / shrink
    half = z / shrink * math.sqrt(mean * (1 - mean) / size + (z / (2 * size)) ** 2)
    # Exactly 0 and 1 where rounding would leave 1e-17 beside them.
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def effective_size(sizes: Sequence[int], mean: float, standard_error: float, *, confidence: float) -> float:
    """Return how many independent yes/no scores would tell as much as these, clustered by scenario.

    That is `n * V / SE^2`, where V = mean (1 - mean) / (n - 1) is the squared standard error that n independent scores
    would have; Student's t for few scenarios in place of many scores takes a share of it. It lies between
    `n^2 / (sum of squared sizes)`, which is the number of scenarios where each has as many scores, and n: the scores of
    a scenario are all alike, or independent. So copies of a score add nothing, and with one score per scenario it is n.
    Where all scores are 0, or all are 1, nothing shows how alike they are: it is the number of scenarios.

    Args:
        sizes: The number of scores of each scenario; two scenarios or more, each with 1 or more.
        mean: The share of ones, 0 to 1.
        standard_error: The clustered standard error of the mean.
        confidence: How often the interval should hold the truth.

    Source: Franco, Little, Louis and Slud (2019), Comparative Study of Confidence Intervals for Proportions in Complex
    Sample Surveys, Journal of Survey Statistics and Methodology 7, 334-364, which recommends Wilson's interval with an
    effective size; for Student's t, Korn and Graubard (1998), Survey Methodology 24, 193-201.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # it ships no types

    total, count = sum(sizes), len(sizes)
    if mean in (0.0, 1.0):
        return count
    if standard_error == 0:
        return total
    tail = (1 - confidence) / 2
    few = float(stdtrit(total - 1, tail) / stdtrit(count - 1, tail))
    size = total * mean * (1 - mean) / (total - 1) * (few / standard_error) ** 2
    alike = total**2 / sum(size**2 for size in sizes)
    return min(total, max(alike, size))
