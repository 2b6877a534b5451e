"""The failure rate over the last episodes."""

from __future__ import annotations

import pytest

from artkit import OutageError
from artkit.rollouts import GatherCounts, GatheredGroups
from artkit.training.failure_window import FailureWindow


def gathered(started: int, failed: int) -> GatheredGroups:
    counts = GatherCounts(started=started, grouped=started - failed, failed={"infrastructure": failed})
    return GatheredGroups(groups=[], lost=[], counts=counts)


def noted(*gathers: tuple[int, int], max_rate: float = 0.5) -> FailureWindow:
    window = FailureWindow(max_rate)
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
