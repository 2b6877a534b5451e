"""pass@k."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError, RewardError
from artkit.validation import mean_pass_at_k, pass_at_k


@st.composite
def counts(draw: st.DrawFn, most: int = 8) -> tuple[int, int, int]:
    """Of n rollouts, c are good and k are drawn."""
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_it_is_the_share_of_draws_with_a_success(numbers: tuple[int, int, int]) -> None:
    """What the formula stands for, counted out: all ways to draw k of n rollouts."""
    n, c, k = numbers
    draws = list(combinations([True] * c + [False] * (n - c), k))

    assert pass_at_k(n, c, k) == sum(map(any, draws)) / len(draws)


@given(counts(most=200))
def test_it_is_the_product_that_the_paper_computes(numbers: tuple[int, int, int]) -> None:
    """Chen et al. 2021, figure 3: 1 - prod(1 - k / i) for i from n - c + 1 to n, and 1 where n - c < k."""
    n, c, k = numbers
    product = 0.0 if n - c < k else math.prod(1 - k / i for i in range(n - c + 1, n + 1))

    assert pass_at_k(n, c, k) == pytest.approx(1 - product, abs=1e-12)


@given(counts(most=50))
def test_more_draws_and_more_successes_never_lower_it(numbers: tuple[int, int, int]) -> None:
    """And pass@1 is the share of successes."""
    n, c, k = numbers

    assert pass_at_k(n, c, 1) == c / n
    assert pass_at_k(n, c, k) <= pass_at_k(n, c, min(k + 1, n))
    assert pass_at_k(n, c, k) <= pass_at_k(n, min(c + 1, n), k)


def test_large_numbers_neither_overflow_nor_cancel() -> None:
    """C(10000, 5000) has 3,009 digits; one success in a million is still seen."""
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert pass_at_k(1_000_000, 1, 1) == 1e-6


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ((3, 1, 4), r"pass@4 cannot be estimated from 3 rollouts .*ask for pass@3"),
        ((3, 1, 0), r"pass_at_k\(k=0\)"),
        ((3, 1, True), r"pass_at_k\(k=True\)"),
        ((0, 0, 1), r"pass_at_k\(n=0\)"),
        ((3, 4, 1), r"pass_at_k\(c=4\): of 3"),
        ((3, -1, 1), r"pass_at_k\(c=-1\)"),
        ((3, 1.0, 1), r"pass_at_k\(c=1.0\)"),
    ],
)
def test_what_cannot_be_estimated_is_refused(numbers, problem: str) -> None:
    """pass@4 of 3 rollouts is not 1.0, and not 0.0 either."""
    with pytest.raises(ConfigurationError, match=problem):
        pass_at_k(*numbers)


def test_the_mean_is_over_scenarios_with_enough_scored_rollouts() -> None:
    """Of one with fewer, pass@k is not known. The mean is that of the others, and too high where the hard ones fail."""
    successes = [[True, False, False, False], [1, 1, 1, 0], [1.0], []]

    assert mean_pass_at_k(successes, 2) == fmean([0.5, 1.0])
    assert mean_pass_at_k(successes, 1) == fmean([0.25, 0.75, 1.0])
    assert mean_pass_at_k(successes, 4) == 1.0


@pytest.mark.parametrize("successes", [[], [[]], [[True], [False]]])
def test_without_enough_rollouts_there_is_no_mean(successes: list[list[bool]]) -> None:
    """Not 0: nothing is known."""
    assert mean_pass_at_k(successes, 2) is None


@pytest.mark.parametrize("success", [0.5, math.nan, 2, None, "1"])
def test_what_is_no_success_is_refused(success) -> None:
    """Half a point is a success to some and a failure to others."""
    with pytest.raises(RewardError, match="is neither 0 nor 1"):
        mean_pass_at_k([[True, success]], 1)


def test_a_flat_list_is_refused() -> None:
    """It may be one scenario or many."""
    with pytest.raises(ConfigurationError, match="one sequence per scenario"):
        mean_pass_at_k([True, False], 1)
