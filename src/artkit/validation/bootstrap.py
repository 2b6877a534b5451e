"""The bootstrap over scenarios, for scores of any kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["bootstrap_interval"]

# Weights drawn in one go, and in all for 50 to 1,000 scenarios that differ: bounds the memory and the time.
_DRAWS = 1_000_000


def bootstrap_interval(scores: Sequence[Sequence[float]], *, confidence: float, seed: int) -> tuple[float, float]:
    """Return the interval for the mean over all scores, from the bootstrap with one more scenario than was seen.

    Scores say nothing of what they have not shown: twenty scenarios that all scored 0.9 or 1 may have missed the one in
    thirty that scores 0. So to the n scenarios comes one that scored the worst, for the lower end, or the best, for the
    upper one; all are weighted at random, and the ends are quantiles of the weighted means:

        low  = the (1 - confidence) / 2 quantile of (sum of w_i s_i + w min(0, lowest score) c) / (sum of w_i c_i + w c)
        high = the (1 + confidence) / 2 quantile of (sum of w_i s_i + w max(1, highest score) c) / (the same)

    where scenario i has c_i scores with the sum s_i, c is the mean of the c_i, and all w are exponential with mean 1.
    Scores of 0 and 1, one for each scenario, would give the interval of Clopper and Pearson; it always has a width.

    Each end is Gaffke's bound for scores in a known range: not proven, but no case is known in which it fails. Here the
    range is taken to be from 0 to 1, and as much wider as was seen: a reward that has a rare value far outside of it
    has to show it once.

    Args:
        scores: The scores of each scenario; two scenarios or more, none empty.
        confidence: How often the interval should hold the truth, between 0 and 1.
        seed: The same seed gives the same interval.

    Returns:
        The lower and the upper end.

    Source: Learned-Miller and Thomas (2019), A New Confidence Interval for the Mean of a Bounded Random Variable,
    arXiv:1905.06208, whose steps between sorted uniform numbers are these weights; Rubin (1981), The Bayesian
    Bootstrap, Annals of Statistics 9, 130-134, for random weights in place of redrawing, here of whole scenarios.
    """
    import numpy as np

    # Scenarios that scored alike share a weight, the sum of theirs: most rewards take few values.
    alike = Counter((math.fsum(scenario), float(len(scenario))) for scenario in scores)
    sums, sizes = np.array(sorted(alike)).T
    shapes = np.array([float(alike[kind]) for kind in sorted(alike)])
    size = sum(map(len, scores)) / len(scores)
    worst, best = min(0.0, *map(min, scores)), max(1.0, *map(max, scores))

    rng = np.random.default_rng(seed)
    lows, highs = [], []
    left, at_once = min(19_999, max(999, _DRAWS // len(alike))), max(1, _DRAWS // len(alike))
    while left > 0:
        rows = min(left, at_once)
        left -= rows
        seen, unseen = rng.standard_gamma(shapes, (rows, len(alike))), rng.standard_exponential(rows)
        total, weight = seen @ sums, seen @ sizes + unseen * size
        lows.append((total + unseen * size * worst) / weight)
        highs.append((total + unseen * size * best) / weight)
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(lows), tail), np.quantile(np.concatenate(highs), 1 - tail)
    return max(float(low), worst), min(float(high), best)
