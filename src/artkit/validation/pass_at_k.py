"""pass@k: how often one of k rollouts would have succeeded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from artkit.checks import check_count
from artkit.errors import ConfigurationError, RewardError
from artkit.validation.checks import check_nested

__all__ = ["mean_pass_at_k", "pass_at_k"]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of `k` rollouts succeeds.

        1 - C(n - c, k) / C(n, k)

    In whole numbers until the last division, so that nothing overflows or cancels.

    Args:
        n: The number of rollouts that were scored.
        c: How many of them succeeded, 0 to n.
        k: How many rollouts one would have, 1 to n.

    Returns:
        The chance, 0 to 1.

    Raises:
        ConfigurationError: If a number is not whole or out of its range.

    Source: Chen et al. (2021), Evaluating Large Language Models Trained on Code, arXiv:2107.03374, equation 1.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
    (0.25, 0.5, 1.0)
    """
    check_count("pass_at_k", "k", k, hint="pass@1 is the least")
    check_count("pass_at_k", "n", n, hint="score at least one rollout")
    if isinstance(c, bool) or not isinstance(c, int) or not 0 <= c <= n:
        raise ConfigurationError(f"pass_at_k(c={c!r}): of {n} rollouts so many cannot succeed", f"give 0 to {n}")
    if k > n:
        raise ConfigurationError(f"pass@{k} cannot be estimated from {n} rollouts", f"score {k}, or ask for pass@{n}")
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws


def mean_pass_at_k(successes: Sequence[Sequence[bool]], k: int) -> float | None:
    """Return the mean of `pass_at_k` over the scenarios with at least `k` rollouts that were scored.

    It speaks for those scenarios only. Where the hard ones lose more rollouts than the easy ones, it is too high as a
    mean of all: see how many were left out. A validation logs it where at least 90 % of its scenarios are in it.

    Args:
        successes: One sequence per scenario: whether each rollout succeeded, as bools or as scores of 0 and 1.
        k: How many rollouts one would have, 1 or more.

    Returns:
        The mean, 0 to 1, or None where no scenario has `k` scored rollouts.

    Raises:
        RewardError: If a success is neither 0 nor 1.
        ConfigurationError: If `k` is no positive whole number, or `successes` is not nested.

    >>> mean_pass_at_k([[True, False, False, False], [True, True, True, False], [True]], 2)
    0.75
    """
    check_count("mean_pass_at_k", "k", k, hint="pass@1 is the least")
    scenarios = check_nested("successes", successes)
    for success in (success for scenario in scenarios for success in scenario):
        if success not in (0, 1):
            raise RewardError(f"successes: {success!r} is neither 0 nor 1", "say which scores count as a success")
    chances = [pass_at_k(len(scenario), sum(map(bool, scenario)), k) for scenario in scenarios if len(scenario) >= k]
    return fmean(chances) if chances else None
