"""Whether 95 % intervals hold the truth in 95 % of cases, over seeded draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean

import pytest
from scipy.special import stdtrit

from artkit.validation import compare, estimate

DRAWS = 400


def yes_no(rng: random.Random, *, scenarios: int, rollouts: int, mean: float, alike: float) -> list[list[float]]:
    """Scores of 0 and 1; `alike` is the correlation between the rollouts of a scenario."""
    spread = (1 - alike) / alike
    chances = [rng.betavariate(mean * spread, (1 - mean) * spread) for _ in range(scenarios)]
    return [[float(rng.random() < chance) for _ in range(rollouts)] for chance in chances]


def uneven(rng: random.Random, **of: float) -> list[list[float]]:
    """The same with rollouts lost here and there, none or nearly all of a scenario."""
    return [scores[: rng.randint(0, len(scores))] for scores in yes_no(rng, **of)]


def nearly_yes_no(rng: random.Random, scenarios: int, chances: dict[float, float]) -> list[list[float]]:
    """One score for each scenario, most of them 0 or 1, each with its chance."""
    return [[score] for score in rng.choices(list(chances), list(chances.values()), k=scenarios)]


def graded(rng: random.Random, *, scenarios: int, rollouts: int) -> list[list[float]]:
    """Scores from 0 to 1 with a mean of 0.5."""
    levels = [rng.random() for _ in range(scenarios)]
    return [[0.6 * level + 0.4 * rng.random() for _ in range(rollouts)] for level in levels]


@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (lambda rng: yes_no(rng, scenarios=64, rollouts=1, mean=0.7, alike=0.5), 0.7),
        (lambda rng: yes_no(rng, scenarios=64, rollouts=4, mean=0.3, alike=0.5), 0.3),
        (lambda rng: yes_no(rng, scenarios=64, rollouts=8, mean=0.9, alike=0.3), 0.9),
        (lambda rng: yes_no(rng, scenarios=20, rollouts=4, mean=0.5, alike=0.9), 0.5),
        (lambda rng: yes_no(rng, scenarios=20, rollouts=4, mean=0.5, alike=0.01), 0.5),
        (lambda rng: uneven(rng, scenarios=64, rollouts=8, mean=0.6, alike=0.5), 0.6),
    ],
    ids=["one each", "four each", "near 1", "all alike", "independent", "uneven"],
)
def test_intervals_hold_the_truth(draw: Callable[[random.Random], list[list[float]]], truth: float) -> None:
    """An interval that is too narrow sees progress where there is none."""
    rng = random.Random(0)
    found = [estimate(draw(rng), seed=number) for number in range(DRAWS)]

    assert 0.925 <= sum(one.low <= truth <= one.high for one in found) / DRAWS <= 0.985


SELDOM_WON = {0.05: {1.0: 0.05, 0.0: 0.65, -0.1: 0.3}, 0.03: {1.0: 0.03, 0.0: 0.67, -0.1: 0.3}}
NEARLY_WON = {1.0: 0.93, 0.9: 0.04, 0.0: 0.03}
HALF_WON = {1.0: 0.5, 0.0: 0.35, -0.1: 0.15}


@pytest.mark.parametrize("scenarios", [12, 24, 64])
@pytest.mark.parametrize(
    "chances", [*SELDOM_WON.values(), NEARLY_WON, HALF_WON], ids=["5 % won", "3 % won", "nearly all won", "half won"]
)
def test_a_reward_that_is_nearly_yes_or_no_gets_no_narrow_interval(chances: dict[float, float], scenarios: int) -> None:
    """A rare value that was not seen is none that is not there: one -0.1 must not make the other zeros certain."""
    rng = random.Random(0)
    truth = sum(score * chance for score, chance in chances.items())
    found = [estimate(nearly_yes_no(rng, scenarios, chances), seed=number) for number in range(DRAWS // 2)]

    assert sum(one.low <= truth <= one.high for one in found) / len(found) >= 0.94
    # `KeepBest(bound="lower")` ranks by this end.
    assert sum(one.low > truth for one in found) / len(found) <= 0.04


@pytest.mark.parametrize(("scenarios", "rollouts", "much_wider"), [(12, 3, 1.5), (24, 1, 1.3), (64, 1, 1.2)])
def test_a_graded_reward_gets_an_interval_a_little_wider_than_students(
    scenarios: int, rollouts: int, much_wider: float
) -> None:
    """It cannot be known that it never is 0 or 1; what that costs goes with the number of scenarios."""
    rng = random.Random(0)
    draws = [graded(rng, scenarios=scenarios, rollouts=rollouts) for _ in range(DRAWS // 4)]
    found = [estimate(draw, seed=number) for number, draw in enumerate(draws)]
    students = [2 * stdtrit(scenarios - 1, 0.975) * one.standard_error for one in found]

    assert sum(one.low <= 0.5 <= one.high for one in found) / len(found) >= 0.94
    assert 1 < fmean(one.high - one.low for one in found) / fmean(students) < much_wider


def test_counting_rollouts_as_independent_would_not_hold_it() -> None:
    """What clustering is for: with every score a scenario of its own, far fewer intervals hold the truth."""
    rng = random.Random(0)
    draws = [yes_no(rng, scenarios=20, rollouts=8, mean=0.5, alike=0.5) for _ in range(DRAWS)]
    found = [estimate([[score] for scores in draw for score in scores]) for draw in draws]

    assert sum(one.low <= 0.5 <= one.high for one in found) / DRAWS < 0.75


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: float(rng.random() < 0.3),
        lambda rng: float(rng.random() < 0.97),
        lambda rng: sum(rng.random() < 0.5 for _ in range(4)) / 4,
        lambda rng: rng.expovariate(1.0),
    ],
    ids=["yes/no", "nearly all won", "means of four", "graded"],
)
@pytest.mark.parametrize("scenarios", [6, 64])
def test_no_difference_is_seldom_called_one(draw: Callable[[random.Random], float], scenarios: int) -> None:
    """At 95 %, one comparison in 20 may be."""
    rng = random.Random(0)
    verdicts = [
        compare(*({number: draw(rng) for number in range(scenarios)} for _ in range(2))).verdict for _ in range(DRAWS)
    ]

    assert 1 - verdicts.count("not distinguishable") / DRAWS <= 0.07


def test_a_difference_is_seen() -> None:
    """Caution that never says anything would be useless: half of the failures mended on 64 scenarios."""
    rng = random.Random(0)
    verdicts = []
    for _ in range(DRAWS):
        before = {number: float(rng.random() < 0.5) for number in range(64)}
        after = {number: max(score, float(rng.random() < 0.5)) for number, score in before.items()}
        verdicts.append(compare(before, after).verdict)

    assert verdicts.count("better") / DRAWS > 0.95
