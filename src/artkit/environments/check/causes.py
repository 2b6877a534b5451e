"""From a difference between two plays to its likely cause: by changing one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.environments.check.calls import CallWatch
from artkit.environments.check.clock import MovedClock
from artkit.environments.check.finding import LikelyCause
from artkit.environments.check.surroundings import Surroundings
from artkit.environments.check.trace import Trace, first_difference

if TYPE_CHECKING:
    from artkit.environments.check.playing import Case, Played
    from artkit.environments.check.state import Change, State

__all__ = ["Blame", "Causes", "disturbed"]

_DAY_S = 86_400.0
# Proofs of the same kind as `UNSEEDED` beside `HASH_ORDER`: the first that was seen is named.
_SUSPECTS = (
    LikelyCause.UNSEEDED, LikelyCause.GLOBAL_RANDOM, LikelyCause.CLOCK, LikelyCause.HASH_ORDER,
    LikelyCause.OTHER_PROCESS, LikelyCause.OUTSIDE,
)  # fmt: skip
_MAX_EVIDENCE = 3

Blame = tuple[LikelyCause, str]


@dataclass(frozen=True)
class Causes:
    """Finds out why two plays of a case differ.

    Args:
        play: Plays a case once in the given surroundings.
        idle: Makes, resets and closes an environment, and no more.
        state: The state as it is now.
        modules: The environment's own modules.
        shared: What was returned twice with different content.
    """

    play: Callable[[Case, Surroundings], Awaitable[Played]]
    idle: Callable[[Case], Awaitable[None]]
    state: Callable[[], State]
    modules: Sequence[Any]
    shared: Sequence[str]

    async def of_repetition(self, case: Case, before: State) -> Blame:
        """Say why a second play differs from the first.

        Args:
            case: What was played.
            before: The state before the first play.
        """
        for cause in (LikelyCause.GLOBAL_RANDOM, LikelyCause.NUMPY_RANDOM, LikelyCause.CLOCK):
            if await self._depends_on(case, cause):
                return cause, await self._seen(case, cause)
        changes = before.changes(self.state())
        if changes:
            return await self._of_state(case, changes)
        return await self._of_calls(case)

    async def of_disturbance(self, case: Case, base: Trace) -> Blame:
        """Say which of the disturbances made the play differ from `base`."""
        for cause in (LikelyCause.GLOBAL_RANDOM, LikelyCause.NUMPY_RANDOM, LikelyCause.CLOCK):
            played = await self.play(case, disturbed(self.modules, only=cause))
            if first_difference(base, played.trace):
                return cause, await self._seen(case, cause)
        return await self._of_calls(case)

    async def of_neighbours(self, play_together: Callable[[], Awaitable[Any]], before: State) -> Blame:
        """Say what episodes that run side by side have in common."""
        changes = before.changes(self.state())
        running = asyncio.ensure_future(play_together())
        try:
            while not running.done():
                await asyncio.sleep(0)
                if len(changes) < _MAX_EVIDENCE:
                    changes += before.changes(self.state())
        finally:
            running.cancel()
        if changes:
            return LikelyCause.STATE, _listed(changes)
        return LikelyCause.UNKNOWN, ""

    async def _depends_on(self, case: Case, cause: LikelyCause) -> bool:
        """Whether plays are equal while one thing is held, and differ when it is held elsewhere."""
        first = (await self.play(case, self._held(cause, 1))).trace
        for _ in range(2):
            if first_difference(first, (await self.play(case, self._held(cause, 1))).trace):
                return False
        for value in range(2, 9):
            if first_difference(first, (await self.play(case, self._held(cause, value))).trace):
                return True
        return False

    def _held(self, cause: LikelyCause, value: int) -> Surroundings:
        def draws(number: int) -> int | None:
            return value if number == 1 else None

        if cause is LikelyCause.GLOBAL_RANDOM:
            return Surroundings(random_draws=draws)
        if cause is LikelyCause.NUMPY_RANDOM:
            return Surroundings(numpy_draws=draws)
        shift_s = value * (_DAY_S * 37 + 3607.3)
        return Surroundings(clock=MovedClock(self.modules, shift_s=shift_s, tick_s=0.001))

    async def _of_state(self, case: Case, changes: list[Change]) -> Blame:
        if self.shared:
            return LikelyCause.SHARED_OBJECT, f"{self.shared[-1]}; {_listed(changes)}"
        if all(change.is_count for change in changes):
            before = self.state()
            await self.idle(case)
            if counted := [change for change in before.changes(self.state()) if change.is_count]:
                return LikelyCause.RESET_COUNT, f"{_listed(counted)} with reset() alone"
        return LikelyCause.STATE, _listed(changes)

    async def _of_calls(self, case: Case) -> Blame:
        seen = await self._watched(case)
        for cause in _SUSPECTS:
            if cause in seen:
                return cause, seen[cause]
        if self.shared:
            return LikelyCause.SHARED_OBJECT, self.shared[-1]
        return LikelyCause.UNKNOWN, ""

    async def _seen(self, case: Case, cause: LikelyCause) -> str:
        return (await self._watched(case)).get(cause, "")

    async def _watched(self, case: Case) -> dict[LikelyCause, str]:
        calls = CallWatch(self.modules)
        await self.play(case, Surroundings(calls=calls))
        return calls.seen


def disturbed(modules: Sequence[Any], *, only: LikelyCause | None = None, seed: int = 0) -> Surroundings:
    """Return surroundings as other episodes and another day would leave them.

    Args:
        modules: The environment's own modules.
        only: What alone is disturbed; None is everything.
        seed: Makes the disturbance another one.
    """

    def draws(number: int) -> int:
        return 1_000_003 * (seed + 1) + 7919 * number

    return Surroundings(
        random_draws=draws if only in (None, LikelyCause.GLOBAL_RANDOM) else None,
        numpy_draws=draws if only in (None, LikelyCause.NUMPY_RANDOM) else None,
        clock=MovedClock(modules, shift_s=_DAY_S * 401 + 18_437.61) if only in (None, LikelyCause.CLOCK) else None,
    )


def _listed(changes: Sequence[Change]) -> str:
    by_place = {change.place: change for change in changes}
    return "; ".join(map(str, list(by_place.values())[:_MAX_EVIDENCE]))
