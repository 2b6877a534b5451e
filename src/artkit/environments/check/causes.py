"""From a difference between two plays to its likely cause: by changing one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.environments.check.calls import CallWatch
from artkit.environments.check.clock import MovedClock
from artkit.environments.check.finding import LikelyCause
from artkit.environments.check.state import listed
from artkit.environments.check.surroundings import Surroundings
from artkit.environments.check.trace import Trace, first_difference

if TYPE_CHECKING:
    from artkit.environments.check.playing import Case, Played
    from artkit.environments.check.state import Change, State

__all__ = ["GENERATORS", "Blame", "Causes", "disturbed"]

_DAY_S = 86_400.0
# Proofs of the same kind as `UNSEEDED` beside `HASH_ORDER`: the first that was seen is named.
_SUSPECTS = (
    LikelyCause.UNSEEDED, LikelyCause.GLOBAL_RANDOM, LikelyCause.CLOCK, LikelyCause.HASH_ORDER,
    LikelyCause.OTHER_PROCESS, LikelyCause.OUTSIDE,
)  # fmt: skip
_MAX_EVIDENCE = 3

GENERATORS = {
    "random": LikelyCause.GLOBAL_RANDOM, "numpy.random": LikelyCause.NUMPY_RANDOM, "torch": LikelyCause.TORCH_RANDOM,
}  # fmt: skip
"""The cause that each global generator is."""

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
        for cause in (*GENERATORS.values(), LikelyCause.CLOCK):
            if await self._depends_on(case, cause):
                return cause, await self._seen(case, cause)
        if changes := before.changes(self.state()) or await self._changes_of_a_play(case):
            return await self._of_state(case, changes)
        return await self._of_calls(case)

    async def of_disturbance(self, case: Case, base: Trace) -> Blame:
        """Say which of the disturbances made the play differ from `base`."""
        for cause in (*GENERATORS.values(), LikelyCause.CLOCK):
            played = await self.play(case, disturbed(self.modules, only=cause))
            if first_difference(base, played.trace):
                if first_difference(base, (await self.play(case, Surroundings())).trace):
                    break  # undisturbed it differs too: it is the repetition
                return cause, await self._seen(case, cause)
        return await self._of_calls(case)

    async def of_neighbours(self, case: Case, play_together: Callable[[], Awaitable[Any]], before: State) -> Blame:
        """Say what `case` has in common with episodes that run beside it."""
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
            return LikelyCause.STATE, listed(changes)
        return await self._of_calls(case)

    async def _depends_on(self, case: Case, cause: LikelyCause) -> bool:
        """Whether plays are equal while one thing is held, and differ when it is held elsewhere."""
        first = (await self.play(case, self._held(cause, 1))).trace
        for _ in range(2):
            if first_difference(first, (await self.play(case, self._held(cause, 1))).trace):
                return False
        for value in range(2, 9):
            if first_difference(first, (await self.play(case, self._held(cause, value))).trace):
                # Held as at first, it must be as at first: a change may come of itself at any time.
                return not first_difference(first, (await self.play(case, self._held(cause, 1))).trace)
        return False

    def _held(self, cause: LikelyCause, value: int) -> Surroundings:
        def draws(number: int) -> int | None:
            return value if number == 1 else None

        if cause is not LikelyCause.CLOCK:
            return Surroundings(draws={name: draws for name, known in GENERATORS.items() if known is cause})
        shift_s = value * (_DAY_S * 37 + 3607.3)
        return Surroundings(clock=MovedClock(self.modules, shift_s=shift_s, tick_s=0.001))

    async def _of_state(self, case: Case, changes: list[Change]) -> Blame:
        if self.shared:
            return LikelyCause.SHARED_OBJECT, f"{self.shared[-1]}; {listed(changes)}"
        if all(change.is_count for change in changes):
            before = self.state()
            await self.idle(case)
            if counted := [change for change in before.changes(self.state()) if change.is_count]:
                return LikelyCause.RESET_COUNT, f"{listed(counted)} with reset() alone"
        return LikelyCause.STATE, listed(changes)

    async def _changes_of_a_play(self, case: Case) -> list[Change]:
        """Return what one more play changes: of what a cached function gives, this is where it shows."""
        before = self.state()
        await self.play(case, Surroundings())
        return before.changes(self.state())

    async def _of_calls(self, case: Case) -> Blame:
        seen, surroundings = await self._watched(case)
        for cause in _SUSPECTS:
            if cause in seen:
                return cause, seen[cause]
        for name in sorted(surroundings.moved_meanwhile):
            return GENERATORS[name], "it is used while nothing of the environment runs but its threads"
        if self.shared:
            return LikelyCause.SHARED_OBJECT, self.shared[-1]
        return LikelyCause.UNKNOWN, ""

    async def _seen(self, case: Case, cause: LikelyCause) -> str:
        return (await self._watched(case))[0].get(cause, "")

    async def _watched(self, case: Case) -> tuple[dict[LikelyCause, str], Surroundings]:
        calls = CallWatch(self.modules)
        surroundings = Surroundings(calls=calls)
        with calls.watching_threads():
            await self.play(case, surroundings)
        return calls.seen, surroundings


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
        draws={name: draws for name, cause in GENERATORS.items() if only in (None, cause)},
        clock=MovedClock(modules, shift_s=_DAY_S * 401 + 18_437.61) if only in (None, LikelyCause.CLOCK) else None,
    )
