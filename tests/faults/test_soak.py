"""Rollouts in which everything goes wrong at once: what the benchmark does, with fewer of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from soaking.fates import ANSWERED, CLOSING, FATES, RESETS, WAITING_FATES, WIRE
from soaking.plan import QUICK, Plan
from soaking.run import soak
from soaking.server_process import ServerProcess

PLAN = Plan(QUICK)


def test_what_a_rollout_meets_follows_from_the_seed_alone() -> None:
    """The server and the checks work it out apart from each other, and a failure can be looked at again."""
    again = Plan(dataclasses.replace(QUICK))
    other = Plan(dataclasses.replace(QUICK, seed=2))

    assert again.ends() == PLAN.ends()
    assert other.ends() != PLAN.ends()


def test_even_a_small_soak_holds_every_fault() -> None:
    """What is not in it is not tried on every change."""
    plays = [
        (PLAN.reset(number), PLAN.play(number, member, replay), end)
        for number, member in PLAN.rollouts()
        for replay, end in enumerate(PLAN.plays(number, member))
    ]
    turns = [turn for reset, play, end in plays for turn in play[: end.turns + 1] if reset == "well"]
    met = {
        *(f"wire: {turn.for_ever}" for turn in turns),
        *(f"raises: {turn.raises}" for turn in turns),
        *(f"ending: {turn.ending}" for turn in turns),
        *(f"unscored: {turn.final}" for turn in turns),
        *(f"once: {fault}" for turn in turns for fault in turn.wire),
        *("never done" for *_, end in plays if end.stop == "max_turns"),
    }

    assert {*FATES, *WAITING_FATES} - met == set()
    assert {f"once: {fault}" for fault in WIRE} <= met
    assert set(ANSWERED) <= {turn.answered for turn in turns}
    assert set(CLOSING) <= {turn.closing for turn in turns}
    assert set(RESETS) <= {reset for reset, *_ in plays}


@pytest.mark.timeout(300)
async def test_every_rollout_ends_as_planned_whatever_goes_wrong_around_it(tmp_path: Path) -> None:
    """Nothing is lost, counted twice, rewarded wrongly, left open or left running."""
    with ServerProcess(QUICK) as server:
        result = await soak(QUICK, server, tmp_path)

    assert result.problems == []
