"""Whether 95 % intervals hold the truth in 95 % of cases, over seeded draws."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

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
        (lambda rng: graded(rng, scenarios=12, rollouts=3), 0.5),
        (lambda rng: graded(rng, scenarios=24, rollouts=1), 0.5),
    ],
    ids=["one each", "four each", "near 1", "all alike", "independent", "uneven", "graded, few", "graded, one each"],
)
def test_intervals_hold_the_truth(draw: Callable[[random.Random], list[list[float]]], truth: float) -> None:
    """An interval that is too narrow sees progress where there is none."""
    rng = random.Random(0)
    found = [estimate(draw(rng), seed=number) for number in range(DRAWS)]

    assert 0.925 <= sum(one.low <= truth <= one.high for one in found) / DRAWS <= 0.985


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
