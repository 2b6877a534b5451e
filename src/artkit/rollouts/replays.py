"""Playing an episode again, in a fresh environment, where the policy says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from artkit.episodes import Episode
from artkit.rollouts.attempt import Failed
from artkit.rollouts.deadlines import is_time_left
from artkit.rollouts.grouping import failure_of

if TYPE_CHECKING:
    import art

    from artkit.episodes import FailurePolicy, FailureRecord

__all__ = ["replay_failures"]

AttemptT = TypeVar("AttemptT", bound="art.Trajectory | Failed")


async def replay_failures(play: Callable[[int], Awaitable[AttemptT]], policy: FailurePolicy) -> tuple[AttemptT, int]:
    """Play until the episode did not fail, or has failed as often as `policy` allows, or its gather has no time left.

    What the plays before the last have failed of is in the log of the episode: nothing else remembers them.

    Args:
        play: Plays once, as the repetition of the number that it is given, from 0.
        policy: Says what is played again.

    Returns:
        The last play, and how many there were before it.
    """
    failed: list[FailureRecord] = []
    while True:
        attempt = await play(len(failed))
        failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
        kinds = [record.kind for record in failed]
        if failure is None or not is_time_left() or not policy.replays(failure.kind, after=kinds):
            break
        failed.append(failure)
    if isinstance(attempt, Episode):
        for record in failed:
            attempt.log(f"played again after a failure, {record.kind}: {record}")
    return attempt, len(failed)
