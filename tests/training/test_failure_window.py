"""The failure rate over the last episodes."""

from __future__ import annotations

from typing import Any

import pytest

from artkit import AllRolloutsFailedError, OutageError
from artkit.rollouts import GatherCounts, GatheredGroups
from artkit.training.failure_window import FailureWindow


def gathered(started: int, failed: int, **causes: int) -> GatheredGroups:
    counts = GatherCounts(started=started, grouped=started - failed, failed={"infrastructure": failed}, causes=causes)
    return GatheredGroups(groups=[], lost=[], counts=counts)


def noted(*gathers: tuple[int, int], max_rate: float = 0.5, max_failures: int | None = None) -> FailureWindow:
    window = FailureWindow(max_rate, max_failures)
    for started, failed in gathers:
        window.note(gathered(started, failed))
    return window


def test_all_of_a_batch_larger_than_the_window_counts() -> None:
    """Its failures are no older than its successes."""
    with pytest.raises(OutageError, match="308 of the last 512 episodes failed"):
        noted((512, 308))


def test_nothing_is_judged_before_100_episodes_were_attempted() -> None:
    """Three of four say little."""
    noted((4, 3), (95, 95))

    with pytest.raises(OutageError, match="99 of the last 100 episodes failed"):
        noted((4, 3), (95, 95), (1, 1))


def test_the_oldest_batches_are_forgotten_once_the_others_are_100_episodes() -> None:
    """An outage that is over must not stop the run that outlived it."""
    window = noted((60, 30), (60, 0), (60, 60))

    with pytest.raises(OutageError, match="61 of the last 120 episodes failed"):
        window.note(gathered(60, 1))


def test_a_share_that_is_allowed_stops_nothing() -> None:
    """The limit itself is within it."""
    noted((200, 100), (100, 100), max_rate=1.0)


def test_what_stopped_it_is_told_by_count() -> None:
    """Of one that is over it says nothing, and what is to be mended first stands first."""
    window = FailureWindow(0.5)
    window.note(gathered(90, 0))
    window.note(gathered(10, 10, lost=10))
    window.note(gathered(60, 21, gone=18, dark=3))

    with pytest.raises(OutageError) as stopped:
        window.note(gathered(40, 40, gone=40))

    assert stopped.value.problem == (
        "61 of the last 100 episodes failed, more than max_failure_rate=0.5 allows: 58 x gone; 3 x dark"
    )


def test_a_count_holds_from_the_first_batch_on() -> None:
    """Small runs end before they have a share."""
    window = noted((8, 2), (8, 3), max_failures=5)

    with pytest.raises(OutageError) as stopped:
        window.note(gathered(8, 1, gone=1))

    assert stopped.value.problem == (
        "6 of the last 24 episodes failed, more than max_recent_failures=5 allows: 1 x gone"
    )
    assert "raise max_recent_failures" in stopped.value.hint


def test_a_count_is_of_the_last_episodes_only() -> None:
    """A long run that loses one in a hundred is in good health."""
    noted(*[(100, 5)] * 50, max_failures=5)


async def test_a_run_whose_rollouts_all_raise_trains_on_nothing_and_says_why(workshop: Any) -> None:
    """An empty batch crashes backends, and their message is about shapes."""
    workshop.answers.replies = dict.fromkeys("abcdefgh", "broken")
    settings = {"groups_per_step": 8, "rollouts_per_group": 4}

    with pytest.raises(AllRolloutsFailedError, match=r"32/32 rollouts failed \(32 environment\); .*it broke"):
        await workshop.trainer(train=workshop.scenarios(*"abcdefgh"), settings=settings).run()

    assert workshop.backend.calls("train") == ()


async def test_a_run_that_loses_more_than_it_may_stops_with_the_causes(workshop: Any) -> None:
    """Each step alone has enough members left to train on."""
    workshop.answers.replies = {name: ["0", "1", "1", "broken"] for name in "abcd"}
    settings = {"groups_per_step": 1, "rollouts_per_group": 4, "max_recent_failures": 2}

    with pytest.raises(OutageError) as stopped:
        await workshop.trainer(settings=settings).run()

    assert stopped.value.problem == (
        "3 of the last 12 episodes failed, more than max_recent_failures=2 allows: 3 x environment: RuntimeError: it broke"
    )
    assert len(workshop.trained_ids()) == 2
