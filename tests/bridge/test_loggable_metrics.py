"""Metrics that ART's log can neither fail on nor misreport."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.bridge import loggable_metrics


@pytest.mark.parametrize(
    "value", [None, "high", b"1", math.nan, math.inf, -math.inf, [1], {}, 10**400, np.array([1, 2])]
)
def test_what_is_no_finite_number_is_dropped(value: Any) -> None:
    """ART's log raises at some and writes lines that later break reading at others."""
    assert loggable_metrics({"good": 1.5, "bad": value}) == {"good": 1.5}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 2), 0.5),
    ],
)
def test_other_libraries_numbers_become_pythons(value: Any, expected: float) -> None:
    """They cannot be written as JSON."""
    (number,) = loggable_metrics({"x": value}).values()

    assert (number, type(number)) == (expected, type(expected))


@pytest.mark.parametrize("name", ["reward", "reward_std_dev", "exception_rate", "exceptions", "val/reward"])
def test_a_metric_called_like_one_of_art_s_own_gets_a_prefix(name: str) -> None:
    """0.5.18 averages it into the reward, 0.5.23 drops it."""
    assert loggable_metrics({name: 1.0}) == {f"metric_{name}": 1.0}


@pytest.mark.parametrize("name", ["costs_prefill", "costs/", "costs/cum/gpu", "data/cum"])
def test_a_name_that_art_refuses_gets_a_prefix(name: str) -> None:
    """It raises in the middle of the log, and the step's row is lost."""
    assert loggable_metrics({name: 1.0}) == {f"metric_{name}": 1.0}


def test_a_prefixed_name_does_not_take_another_ones_place() -> None:
    """Both were measured."""
    assert loggable_metrics({"reward": 1.0, "metric_reward": 2.0}) == {
        "metric_metric_reward": 1.0,
        "metric_reward": 2.0,
    }


@given(st.dictionaries(st.text(), st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.text())))
def test_what_comes_out_is_always_json_with_finite_numbers(metrics: dict[str, Any]) -> None:
    """Every line of the history can be read again."""
    safe = loggable_metrics(metrics)

    assert json.loads(json.dumps(safe, allow_nan=False)) == safe


@given(st.dictionaries(st.sampled_from(["turns", "loss/train", "costs/gpu"]), st.floats(-1e9, 1e9)))
def test_good_metrics_pass_unchanged(metrics: dict[str, float]) -> None:
    """Nothing is touched that need not be."""
    assert loggable_metrics(metrics) == metrics
