"""Global generators that belong to one game."""

from __future__ import annotations

import random

import numpy as np
import pytest

from artkit.environments.adapters.own_random import OwnRandom


def draw() -> tuple[float, float]:
    return random.random(), float(np.random.random())


def fail() -> None:
    random.seed(99)
    raise ValueError("no such move")


def test_what_is_drawn_inside_follows_from_the_seed() -> None:
    """Whatever the rest of the program draws in between."""
    drawn = []
    for outside in (1, 2):
        own = OwnRandom(7)
        with own.drawing():
            drawn.append(draw())
        random.seed(outside)
        np.random.seed(outside)
        with own.drawing():
            drawn.append(draw())

    assert drawn[:2] == drawn[2:]
    assert drawn[0] != drawn[1]


def test_the_rest_of_the_program_draws_as_if_nothing_was() -> None:
    """A seeded program stays seeded, also where the code inside seeds and fails."""
    random.seed(3)
    np.random.seed(3)
    expected = draw(), draw()
    random.seed(3)
    np.random.seed(3)

    first = draw()
    with pytest.raises(ValueError, match="no such move"), OwnRandom(0).drawing():
        fail()
    assert (first, draw()) == expected


@pytest.mark.parametrize("seed", [-1, 2**40])
def test_any_int_is_a_seed(seed: int) -> None:
    """NumPy's own range is smaller."""
    with OwnRandom(seed).drawing():
        assert draw()
