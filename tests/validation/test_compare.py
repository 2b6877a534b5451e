"""Whether one validation is better than another."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from artkit.errors import ConfigurationError, RewardError
from artkit.validation import Comparison, compare

scores = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(-10, 10))
validations = st.dictionaries(st.sampled_from("abcdefghijkl"), scores)


def named(values: list[float]) -> dict[str, float]:
    return {f"task-{number}": value for number, value in enumerate(values)}


def test_it_is_students_interval_on_his_own_data() -> None:
    """Hours of sleep gained with two drugs, Student (1908), as R prints it: t.test(extra ~ group, paired = TRUE)."""
    dextro = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    laevo = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

    assert compare(named(dextro), named(laevo)) == Comparison(
        difference=pytest.approx(1.58),
        standard_error=pytest.approx(1.58 / 4.0621, abs=1e-5),
        low=pytest.approx(0.7001142),
        high=pytest.approx(2.4598858),
        scenarios=10,
        verdict="better",
        differing=9,
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=8, max_size=30), st.floats(0.5, 0.95))
def test_it_is_scipys_paired_interval(pairs: list[tuple[float, float]], confidence: float) -> None:
    """Where scenarios enough differ, and not all by the same."""
    before, after = map(list, zip(*pairs, strict=True))
    found = compare(named(before), named(after), confidence=confidence)

    if found.differing >= 6 and found.standard_error > 1e-6:
        expected = ttest_rel(after, before).confidence_interval(confidence)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(validations, validations)
def test_the_verdict_is_what_the_interval_says(before: dict[str, float], after: dict[str, float]) -> None:
    """And the other way round it is the mirror image."""
    found, back = compare(before, after), compare(after, before)
    mirror = {"better": "worse", "worse": "better"}

    assert found.scenarios == len(before.keys() & after.keys())
    assert back.verdict == mirror.get(found.verdict, found.verdict)
    assert (found.low is None) == (found.scenarios < 2)
    if found.low is not None:
        assert (back.low, back.high) == (-found.high, -found.low)
        assert found.low <= found.difference <= found.high
        expected = "better" if found.low > 0 else "worse" if found.high < 0 else "not distinguishable"
        assert found.verdict == expected


@given(validations)
def test_the_same_again_is_not_distinguishable(validation: dict[str, float]) -> None:
    """Whatever it scored."""
    assert compare(validation, dict(validation)).verdict == "not distinguishable"


@pytest.mark.parametrize(
    ("changed", "verdict"), [(2, "not distinguishable"), (5, "not distinguishable"), (6, "better"), (20, "better")]
)
def test_few_scenarios_that_all_won_are_not_certain(changed: int, verdict: str) -> None:
    """By chance 5 scenarios change in one direction once in 16 times; their variance of 0 does not know."""
    found = compare(named([0] * changed), named([1] * changed))

    assert (found.verdict, found.standard_error, found.high) == (verdict, 0.0, 1.0)
    assert found.low < 0.9


@pytest.mark.parametrize(("confidence", "least"), [(0.5, 2), (0.8, 4), (0.9, 5), (0.95, 6), (0.99, 8)])
def test_more_confidence_takes_more_scenarios(confidence: float, least: int) -> None:
    """The sign test: two in 2^n ways to agree."""
    verdicts = [
        compare(named([1.0] * count), named([0.0] * count), confidence=confidence).verdict
        for count in (least - 1, least)
    ]

    assert verdicts == ["not distinguishable", "worse"]


def test_rounding_is_no_spread() -> None:
    """0.3 - 0.1 is not 0.4 - 0.2, and 1e-17 of it would be certain of two scenarios as well as of twenty."""
    found = compare(named([0.1, 0.2] * 10), named([0.3, 0.4] * 10))

    assert found.difference == pytest.approx(0.2)
    assert found.low < 0.18


def test_only_shared_scenarios_count() -> None:
    """Losing the hard ones must not look like getting better."""
    before = named([0.5, 0.5, 0.5, 0.5]) | {"hard": 0.0}
    found = compare(before, named([0.5, 0.5, 0.5, 0.5]) | {"easy": 1.0})

    assert (found.difference, found.scenarios, found.verdict) == (0.0, 4, "not distinguishable")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({}, {}, "not distinguishable: no shared scenario"),
        ({"a": 0}, {"b": 1}, "not distinguishable: no shared scenario"),
        ({"a": 0}, {"a": True}, "not distinguishable: +1.000 on the only shared scenario; it takes more to tell"),
        (
            named([0, 0, 1]),
            named([1, 1, 1]),
            "not distinguishable: +0.667 (95 % interval -0.768 to +2.101, 3 shared scenarios, 2 of them different: too few to tell)",
        ),
        (
            named([1, 0]),
            named([1, 0]),
            "not distinguishable: +0.000 (95 % interval +0.000 to +0.000, 2 shared scenarios, none of them different: too few to tell)",
        ),
        (
            named([1] * 10),
            named([0] * 9 + [1]),
            "worse: -0.900 (95 % interval -1.126 to -0.674, 10 shared scenarios)",
        ),
    ],
)
def test_it_prints_as_a_line(before: dict[str, float], after: dict[str, float], line: str) -> None:
    """The console and the report show it; where it cannot tell, it says why."""
    assert str(compare(before, after)) == line


@pytest.mark.parametrize("score", [math.nan, math.inf, None, "1"])
def test_a_score_that_is_no_finite_number_is_refused(score) -> None:
    """And named, on either side."""
    with pytest.raises(RewardError, match=r"after\['b'\]: .* is no finite number"):
        compare({"a": 1, "b": 1}, {"a": 1, "b": score})
    with pytest.raises(RewardError, match=r"before\['b'\]: .* is no finite number"):
        compare({"b": score}, {})


def test_a_confidence_out_of_range_is_refused() -> None:
    """95 is a percentage."""
    with pytest.raises(ConfigurationError, match="confidence=95"):
        compare({}, {}, confidence=95)


def test_results_are_compared_by_their_scores() -> None:
    """Whoever gives the results themselves is told what to give."""
    result = SimpleNamespace(scores={"a": 1.0})

    with pytest.raises(ConfigurationError, match=r"compare\(before=…\) .*SimpleNamespace.*give the \.scores of each"):
        compare(result, result)
    with pytest.raises(ConfigurationError, match=r"compare\(after=…\) is of type list.*the score of each scenario"):
        compare({"a": 1.0}, [1.0])
