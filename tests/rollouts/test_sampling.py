"""How replies are sampled, and the limits of an episode."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.rollouts import Limits, Sampling


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"max_completion_tokens": 0},
    ],
)
def test_a_sampling_that_no_server_takes_is_refused(settings: dict[str, Any]) -> None:
    """Found out by the server, it would cost a batch of rollouts."""
    [(name, value)] = settings.items()

    with pytest.raises(ConfigurationError, match=f"{name}={value!r}"):
        Sampling(**settings)


@pytest.mark.parametrize("name", ["max_turns", "request_timeout_s", "tool_timeout_s", "episode_timeout_s"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_limit_that_leaves_nothing_is_refused(name: str, value: float) -> None:
    """None is how no limit is spelled."""
    with pytest.raises(ConfigurationError, match=f"{name}={value!r} is not positive"):
        Limits(**{name: value})


@given(st.integers(), st.text(), st.integers(0, 100), st.integers(0, 100))
def test_a_request_seed_fits_every_server(seed: int, scenario_id: str, member: int, turn: int) -> None:
    """Some keep it in a signed 32-bit number; and the same request has the same seed."""
    sampling = Sampling(seed=seed)
    request_seed = sampling.request_seed(scenario_id, member, turn)

    assert request_seed is not None
    assert 0 <= request_seed < 2**31
    assert request_seed == sampling.request_seed(scenario_id, member, turn)


def test_every_request_of_a_group_has_its_own_seed() -> None:
    """Siblings with one seed would say the same, and there would be nothing to compare."""
    seeds = {Sampling(seed=1).request_seed(s, m, t) for s in ("a", "b") for m in range(8) for t in range(8)}

    assert len(seeds) == 2 * 8 * 8


def test_without_a_seed_no_request_has_one() -> None:
    """The server then samples as it likes."""
    assert Sampling().request_seed("a", 0, 0) is None


def test_a_first_play_has_the_seeds_it_always_had() -> None:
    """A validation is compared with those of earlier versions."""
    assert (Sampling(seed=1).request_seed("a", 2, 3), Sampling(seed=1).request_seed("a", 2, 3, replay=1)) == (
        401779975,
        1603695678,
    )
