"""A mean, its standard error and its interval."""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from artkit.errors import ConfigurationError, RewardError
from artkit.validation import Estimate, estimate
from artkit.validation.bootstrap import bootstrap_interval
from artkit.validation.wilson import effective_size, wilson_interval

finite = st.floats(-1e6, 1e6)
graded = st.lists(st.lists(finite, max_size=4), min_size=1, max_size=8)
yes_no = st.lists(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=5), min_size=2, max_size=30)


def test_a_known_case() -> None:
    """By hand: mean 5/8; residuals 3/4, -1/4, -5/4, 3/4 per scenario; SE^2 = 4/3 * 2.75 / 64.

    Independent scores would have 15/64 / 7, so n is worth 8 * 15/64 / 7 / SE^2 = 4.675, less (2.3646/3.1824)^2 of it:
    2.58. All alike, it is worth 64 / 16 = 4, the least.
    """
    found = estimate([[1, 1], [0, 1], [0, 0], [1, 1]])

    size = 4
    low, high = wilson_interval(0.625, size, confidence=0.95)
    assert found == Estimate(
        mean=0.625,
        standard_error=pytest.approx(math.sqrt(11 / 192)),
        low=low,
        high=high,
        scores=8,
        scenarios=4,
        method="wilson",
    )


@given(graded.filter(lambda scores: sum(map(bool, scores)) >= 2))
def test_the_standard_error_is_millers(scores: list[list[float]]) -> None:
    """Written as the paper has it: the independent part, and the products of pairs within a scenario."""
    found = estimate(scores)
    groups = [group for group in scores if group]
    total, count = found.scores, found.scenarios
    mean = math.fsum(math.fsum(group) for group in groups) / total
    squares = math.fsum((score - mean) ** 2 for group in groups for score in group)
    pairs = math.fsum(
        (group[i] - mean) * (group[j] - mean)
        for group in groups
        for i in range(len(group))
        for j in range(len(group))
        if i != j
    )
    expected = count / (count - 1) * (squares + pairs) / total**2

    assert found.mean == pytest.approx(mean, abs=1e-9)
    assert found.standard_error**2 == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(st.integers(1, 4).flatmap(lambda size: st.lists(st.lists(finite, min_size=size, max_size=size), min_size=2)))
def test_with_equal_numbers_it_is_the_standard_error_of_the_scenarios_means(scores: list[list[float]]) -> None:
    """The textbook one, where there is one rollout for each."""
    means = [statistics.fmean(group) for group in scores]

    expected = statistics.stdev(means) / math.sqrt(len(means))
    assert estimate(scores).standard_error == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_one_rollout_each_gives_published_wilson_intervals(successes: int, total: int, low: float, high: float) -> None:
    """Newcombe (1998), Statistics in Medicine 17, table I, method 3."""
    found = estimate([[1]] * successes + [[0]] * (total - successes))

    assert (round(found.low, 4), round(found.high, 4), found.method) == (low, high, "wilson")


@given(st.integers(2, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.9999))
def test_one_rollout_each_is_scipys_wilson(numbers: tuple[int, int], confidence: float) -> None:
    """An independent implementation, at any confidence."""
    successes, total = numbers
    found = estimate([[1]] * successes + [[0]] * (total - successes), confidence=confidence)

    expected = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_effective_size_is_what_the_standard_error_implies() -> None:
    """By hand: SE^2 = 10/9 * 16 / 40^2; (40 * 0.25 / 39 / SE^2) * (2.022691 / 2.262157)^2, by a table of Student's t."""
    scores = [[1] * wins + [0] * (4 - wins) for wins in (4, 4, 3, 2, 2, 2, 1, 1, 1, 0)]
    found = estimate(scores)

    assert found.standard_error == pytest.approx(math.sqrt(1 / 90))
    assert effective_size([4] * 10, 0.5, found.standard_error, confidence=0.95) == pytest.approx(18.4498, abs=1e-3)
    assert (found.low, found.high) == pytest.approx(wilson_interval(0.5, 18.4498, confidence=0.95), abs=1e-4)


@given(yes_no)
def test_the_effective_size_is_between_all_alike_and_independent(scores: list[list[int]]) -> None:
    """Rollouts that agree by chance do not count double; rollouts that differ count no more than they are."""
    found = estimate(scores)
    sizes = list(map(len, scores))
    total = sum(sizes)

    size = effective_size(sizes, found.mean, found.standard_error, confidence=0.95)
    assert total**2 / sum(size**2 for size in sizes) <= size * (1 + 1e-12)
    assert size <= total
    assert 0 <= found.low <= found.mean <= found.high <= 1


@given(st.lists(st.sampled_from([0, 1]), min_size=2, max_size=40), st.integers(2, 6))
def test_copies_of_a_rollout_tell_nothing(scores: list[int], copies: int) -> None:
    """A model at temperature 0 repeats itself; asking it again must not narrow the interval."""
    once, often = estimate([[score] for score in scores]), estimate([[score] * copies for score in scores])

    assert (often.low, often.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert often.standard_error == pytest.approx(once.standard_error)


@pytest.mark.parametrize("score", [0, 1])
def test_all_lost_or_all_won_counts_scenarios(score: int) -> None:
    """How alike the rollouts of a scenario are cannot be seen, and the standard error of 0 is no certainty."""
    found = estimate([[score] * 8, [score], [score] * 3])

    expected = binomtest(3 * score, 3).proportion_ci(method="wilson")
    assert (found.mean, found.standard_error) == (score, 0.0)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_scenarios_that_all_win_half_count_every_rollout() -> None:
    """Nothing varies between scenarios; yet no more was seen than there are scores."""
    found = estimate([[0, 1]] * 10)

    expected = binomtest(10, 20).proportion_ci(method="wilson")
    assert (found.standard_error, found.low, found.high) == (
        0.0,
        pytest.approx(expected.low),
        pytest.approx(expected.high),
    )


def test_two_scenarios_that_disagree_tell_next_to_nothing() -> None:
    """The mean is one half, and the truth may be anything."""
    found = estimate([[0] * 50, [1] * 50])

    assert (found.low < 0.1, found.high > 0.9) == (True, True)


@given(graded, st.integers(0, 3))
def test_an_interval_holds_its_mean_and_is_the_same_each_time(scores: list[list[float]], seed: int) -> None:
    """Without a NaN, whatever the scores; the bootstrap is seeded."""
    found = estimate(scores, seed=seed)

    assert found == estimate(scores, seed=seed)
    if found is None:
        assert not any(scores)
    elif found.scenarios == 1:
        assert (found.standard_error, found.low, found.high, found.method) == (None, None, None, "none")
    else:
        assert found.low <= found.mean <= found.high
        assert found.standard_error >= 0


def test_the_bootstrap_draws_whole_scenarios() -> None:
    """Copies of a rollout tell nothing here either."""
    scores = [0.1, 0.9, 0.4, 0.7, 0.2, 0.6]
    once, often = estimate([[score] for score in scores]), estimate([[score] * 4 for score in scores])

    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert often.method == "bootstrap"


@pytest.mark.parametrize(("wins", "total"), [(0, 12), (1, 12), (7, 12), (23, 24), (64, 64)])
def test_the_bootstrap_of_yes_or_no_would_be_the_exact_interval(wins: int, total: int) -> None:
    """Clopper and Pearson's, by an independent implementation; 0.008 is what the draws leave to chance."""
    low, high = bootstrap_interval([[1]] * wins + [[0]] * (total - wins), confidence=0.95, seed=0)

    exact = binomtest(wins, total).proportion_ci(method="exact")
    assert (low, high) == (pytest.approx(exact.low, abs=0.008), pytest.approx(exact.high, abs=0.008))


@pytest.mark.parametrize(("scores", "worst", "best"), [([0.2, 0.4], 0, 1), ([-2, 0.5], -2, 1), ([3, 9], 0, 9)])
def test_the_bootstrap_stays_within_what_a_reward_may_be(scores: list[float], worst: float, best: float) -> None:
    """From 0 to 1, or to what was seen beyond: two scenarios leave nearly all of it possible."""
    found = estimate([[score] for score in scores])

    assert worst <= found.low < worst + 0.2 * (best - worst)
    assert best - 0.2 * (best - worst) < found.high <= best


def test_one_score_between_changes_little() -> None:
    """Where one is 0.9 and the rest 0 or 1, the interval is about Wilson's, not half of it."""
    wilson, near = estimate([[1.0]] * 64), estimate([[1.0]] * 63 + [[0.9]])

    assert (wilson.method, near.method) == ("wilson", "bootstrap")
    assert near.low == pytest.approx(wilson.low, abs=0.005)


def test_another_seed_gives_nearly_the_same() -> None:
    """The number of draws is large enough for two digits."""
    scores = [[math.sin(number), math.cos(number)] for number in range(64)]
    one, two = estimate(scores, seed=0), estimate(scores, seed=1)

    assert one.low != two.low
    assert abs(one.low - two.low) < 0.1 * one.standard_error


@pytest.mark.parametrize("score", [0.7, 0.1, -3, 2, 1e-300, 1e200])
def test_equal_scores_have_no_spread_and_yet_no_certainty(score: float) -> None:
    """Of any kind: the standard error is 0, and the interval has a width."""
    found = estimate([[score] * 3, [score], [score] * 2])

    assert (found.mean, found.standard_error, found.method) == (score, 0.0, "bootstrap")
    assert min(0, score) <= found.low <= score <= found.high <= max(1, score)
    assert found.low < found.high


def test_few_scenarios_that_scored_alike_do_not_beat_many() -> None:
    """Two at 0.9 say less than 64 around 0.95, and `KeepBest(bound="lower")` ranks by the lower end."""
    rng = random.Random(0)
    few, many = estimate([[0.9], [0.9]]), estimate([[min(1, rng.gauss(0.95, 0.06))] for _ in range(64)])

    assert few.low < 0.5 < many.low


@pytest.mark.parametrize("scores", [[], [[]], [[], []]])
def test_no_score_no_estimate(scores: list[list[float]]) -> None:
    """A validation in which nothing could be scored has no mean, and least of all 0."""
    assert estimate(scores) is None


@pytest.mark.parametrize("scores", [[[1]], [[], [1, 1, 1]]])
def test_one_scenario_tells_nothing_of_others(scores: list[list[float]]) -> None:
    """However often it was played."""
    found = estimate(scores)

    assert (found.mean, found.standard_error, found.low, found.high, found.method) == (1.0, None, None, None, "none")


def test_empty_scenarios_and_bools_are_taken_as_they_are() -> None:
    """A scenario whose rollouts all failed is not a scenario that scored 0."""
    assert estimate([[True, 0], [], [1.0], [False]]) == estimate([[1, 0], [1], [0]])


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, None, "1", 10**400])
def test_a_score_that_is_no_finite_number_is_refused(score) -> None:
    """It would turn the mean into NaN, or into a lie."""
    with pytest.raises(RewardError, match=r"scores: .* is no finite number .*leave out what could not be scored"):
        estimate([[0.5], [1, score]])


def test_a_flat_list_is_refused() -> None:
    """It may be one scenario or many."""
    with pytest.raises(ConfigurationError, match=r"scores: 1.0 .*one sequence per scenario"):
        estimate([1.0, 0.0])


@pytest.mark.parametrize("confidence", [0, 1, 95, 0.4, 0.99999, -0.5, math.nan, True, "0.95", None])
def test_a_confidence_out_of_range_is_refused(confidence) -> None:
    """95 is a percentage; the bootstrap's draws cannot tell more than 99.99 %."""
    with pytest.raises(ConfigurationError, match=r"confidence=.* is not from 0\.5 to 0\.9999"):
        estimate([[0.5], [1]], confidence=confidence)


@pytest.mark.parametrize("seed", [-1, 1.0, None, True])
def test_a_seed_that_is_none_is_refused(seed) -> None:
    """None would be another seed each time."""
    with pytest.raises(ConfigurationError, match=r"seed=.* is no whole number"):
        estimate([[0.5], [1]], seed=seed)


def test_importing_the_room_is_cheap() -> None:
    """SciPy is loaded when something is estimated, not when a schedule is made."""
    probe = "import sys, artkit.validation; print(sorted({'scipy', 'numpy', 'art'} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
