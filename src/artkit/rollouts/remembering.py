"""A rollout that does not play again what a session that was killed has played."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artkit.episodes import Episode
from artkit.rollouts.attempt import Failed, played_of, result_of

if TYPE_CHECKING:
    import art

    from artkit.episodes import FailurePolicy, Recorder
    from artkit.rollouts.attempt import Attempt, Attempting

__all__ = ["RememberingRollout"]


class RememberingRollout:
    """Returns the episodes that are known, and records each one that it has to play as soon as it ends.

    Failures are not recorded: they are what is worth another try.

    Args:
        rollout: What plays.
        recorder: Where episodes go.
        known: Episodes that were played already, by scenario id and member.
    """

    def __init__(
        self, rollout: Attempting, recorder: Recorder, known: Mapping[tuple[str, int], art.Trajectory]
    ) -> None:
        self.rollout = rollout
        self._recorder = recorder
        self._known = known

    @property
    def failure_policy(self) -> FailurePolicy:
        """That of the rollout that plays."""
        return self.rollout.failure_policy

    async def attempt(self, model: art.Model[Any, Any], scenario: Any, member: int = 0) -> Attempt:
        """Return the known episode, or play."""
        if (known := self._known.get((scenario.id, member))) is not None:
            return known
        try:
            attempt = await self.rollout.attempt(model, scenario, member)
        except asyncio.CancelledError as error:
            if (played := played_of(error)) is not None:
                self._recorder.add(played)
            raise
        if not isinstance(attempt, Failed) and not (isinstance(attempt, Episode) and attempt.failure is not None):
            self._recorder.add(attempt)
        return attempt

    async def __call__(self, model: art.Model[Any, Any], scenario: Any, member: int = 0) -> art.Trajectory:
        """Return the episode; see `attempt`."""
        return result_of(await self.attempt(model, scenario, member))
