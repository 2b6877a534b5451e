"""How much better a member did than its siblings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.backends.torch.advantages import group_advantages

rewards = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=16)


def test_advantages_are_centred_and_divided_by_the_spread() -> None:
    """GRPO's formula, by hand: mean 1, population standard deviation 1."""
    scaled = group_advantages([0.0, 2.0], scale=True)

    assert scaled == pytest.approx([-1.0, 1.0], abs=1e-5)


def test_a_lone_member_has_no_advantage() -> None:
    """The standard deviation of one value must not become NaN."""
    assert group_advantages([0.7], scale=True) == [0.0]


def test_an_empty_group_has_no_advantages() -> None:
    """Nothing in, nothing out."""
    assert group_advantages([], scale=True) == []


@given(rewards=rewards, scale=st.booleans())
def test_advantages_are_finite_and_sum_to_zero(rewards: list[float], scale: bool) -> None:
    """Whatever the rewards, a group pushes as much up as down."""
    advantages = group_advantages(rewards, scale=scale)

    assert all(map(math.isfinite, advantages))
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-6)


@given(value=st.floats(-1e6, 1e6), size=st.integers(1, 9), scale=st.booleans())
def test_equal_rewards_teach_nothing(value: float, size: int, scale: bool) -> None:
    """Rounding in the mean must not become an advantage."""
    assert group_advantages([value] * size, scale=scale) == [0.0] * size
