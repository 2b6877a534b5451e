"""The passes of a check: the same cases once more, under other circumstances, and compared with the first time."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from artkit.environments.check.causes import GENERATORS, Blame, disturbed
from artkit.environments.check.endings import check_endings
from artkit.environments.check.finding import LikelyCause, Promise
from artkit.environments.check.fresh_process import NotPlayedError, play_in_fresh_process
from artkit.environments.check.noting import note_the_rest
from artkit.environments.check.state import listed
from artkit.environments.check.trace import Difference, Trace, first_difference

if TYPE_CHECKING:
    from artkit.environments.check.checking import Checking
    from artkit.environments.check.playing import Case, Played

__all__ = ["run_passes"]

_TOGETHER = 8
# Of the time limit: all passes take about eight times as long as the first.
_FIRST_SHARE = 1 / 8
_HASH_SEEDS = (101, 202)


async def run_passes(checking: Checking) -> None:
    """Run all passes; those that compare plays end with the first that finds a difference."""
    await _first(checking)
    for compare in (_again, _elsewhen, _together):
        if not checking.is_explained:
            await compare(checking)
    if not checking.settings.quick:
        await check_endings(checking)
    if checking.settings.fresh_process and not checking.is_explained:
        await _fresh_process(checking)
    note_the_rest(checking)
    if not checking.is_explained:
        for name in sorted(checking.moved):
            if seeding := checking.seeded.get(name):
                case, call = seeding
                what = f"{call}() seeded {GENERATORS[name]}, which everybody else in the process draws from"
                checking.found(Promise.PROCESS, case, what, GENERATORS[name])
            else:
                checking.note(
                    f"it uses {GENERATORS[name]}, which all episodes share; nothing that was compared depends on it"
                )


async def _first(checking: Checking) -> None:
    began_s = time.monotonic()
    share_s = checking.settings.time_limit_s * _FIRST_SHARE
    for number, case in enumerate(checking.cases):
        if number and time.monotonic() - began_s > share_s:
            left = len({id(other.scenario) for other in checking.cases[number:]})
            checking.leave_out(f"it is slow: {left} of the scenarios were left out or played less")
            break
        played = await checking.judged(case)
        checking.base.append((case, played))
        if played.is_timed_out:
            break  # the others would take as long again
    if checking.is_explained:
        return
    for case, played in checking.base:
        first_case, first = next(pair for pair in checking.base if pair[0].scenario is case.scenario)
        if first.is_timed_out or played.is_timed_out:
            continue
        if difference := first_difference(first.trace.start(), played.trace.start()):
            why = functools.partial(checking.causes.of_repetition, case, checking.first_state)
            await checking.differs(Promise.START, first_case, difference, why, "in another episode of the scenario")
            return


async def _again(checking: Checking) -> None:
    # In reverse: the last case directly after itself, the others with episodes in between.
    for case, base in reversed(checking.base):
        if base.is_timed_out:
            continue
        played = await checking.judged(case)
        if difference := _difference(base, played):
            why = functools.partial(checking.causes.of_repetition, case, checking.first_state)
            await checking.differs(Promise.REPLAYS, case, difference, why, "when it is played again")
            return


async def _elsewhen(checking: Checking) -> None:
    """After further resets, with global generators as others would leave them, on another day."""
    for case, base in checking.base:
        if base.is_timed_out:
            continue
        await checking.idle(case)
        surroundings = disturbed(checking.modules, seed=checking.settings.seed)
        played = await checking.play(case, surroundings)
        checking.judge_seeding(case, surroundings)
        if difference := _difference(base, played):
            how = "after further resets, with the global generators used by others, on another day"
            await checking.differs(
                Promise.REPLAYS, case, difference, functools.partial(_why_elsewhen, checking, case, base), how
            )
            return


async def _why_elsewhen(checking: Checking, case: Case, base: Played) -> Blame | None:
    cause, evidence = await checking.causes.of_disturbance(case, base.trace)
    if cause in GENERATORS.values() or (evidence and cause is LikelyCause.CLOCK):
        return cause, evidence
    if cause is LikelyCause.CLOCK:
        # Nobody asked for the time: it is the stand-in for `datetime` that made the difference, and no fault.
        return None
    return await checking.causes.of_repetition(case, checking.first_state)


async def _together(checking: Checking) -> None:
    """Side by side: each case with the others, and one twice."""
    pairs = [(case, base) for case, base in checking.base if not base.is_timed_out]
    for start in range(0, len(pairs), _TOGETHER):
        chunk = pairs[start : start + _TOGETHER]
        side_by_side = [*chunk, chunk[0]]

        async def play_all(pairs: list[tuple[Case, Played]] = side_by_side) -> list[Played]:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(checking.play(case)) for case, _ in pairs]
            return [task.result() for task in running]

        for (case, base), played in zip(side_by_side, await play_all(), strict=True):
            if difference := _difference(base, played):
                why = functools.partial(checking.causes.of_neighbours, case, play_all, checking.first_state)
                await checking.differs(Promise.ISOLATED, case, difference, why, "when other episodes run beside it")
                return


async def _fresh_process(checking: Checking) -> None:
    pairs = [(case, base) for case, base in checking.base if not base.is_timed_out]
    cases = [case for case, _ in pairs]
    if not cases:
        return

    async def play(hash_seed: int, *, is_reversed: bool) -> list[Trace]:
        order = -1 if is_reversed else 1
        traces = await play_in_fresh_process(
            checking.environment,
            cases[::order],
            max_turns=checking.settings.max_turns,
            call_timeout_s=checking.settings.call_timeout_s,
            hash_seed=hash_seed,
            timeout_s=checking.settings.time_limit_s,
        )
        return traces[::order]

    # In either order: what one scenario leaves to the next, as a cache may, shows in nothing else.
    playing = (play(_HASH_SEEDS[0], is_reversed=False), play(_HASH_SEEDS[1], is_reversed=True))
    answers = await asyncio.gather(*playing, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            if not isinstance(answer, NotPlayedError):
                raise answer
            checking.leave_out(f"it was not played in a fresh process: {answer}")
            return
    played_there = [answer for answer in answers if not isinstance(answer, BaseException)]
    if _failed_to_start(pairs, played_there[0]):
        problem = played_there[0][0].entries[0][2]
        checking.leave_out(f"it was not played in a fresh process: there {problem}; is it set up by the program?")
        return
    for number, (case, base) in enumerate(pairs):
        there = [traces[number] for traces in played_there]
        if difference := first_difference(base.trace, there[0]) or first_difference(base.trace, there[1]):
            why = functools.partial(_why_there, checking, play, there, number)
            how = "in a fresh process"
            await checking.differs(Promise.FRESH_PROCESS, case, difference, why, how)
            return


async def _why_there(
    checking: Checking, play: Callable[..., Awaitable[list[Trace]]], there: list[Trace], number: int
) -> Blame:
    """Say why other processes differ: those with other hashes were played, in either order."""
    changes = listed(checking.first_state.changes(checking.state()))
    left = changes or "what ran earlier in the process left something behind"
    if not first_difference(there[0], there[1]):
        return LikelyCause.STATE, left
    try:
        plays = [play(_HASH_SEEDS[0], is_reversed=is_reversed) for is_reversed in (False, True)]
        again, backwards = [traces[number] for traces in await asyncio.gather(*plays)]
    except NotPlayedError:
        return LikelyCause.UNKNOWN, ""
    if first_difference(there[0], again):
        return LikelyCause.OTHER_PROCESS, ""
    return (LikelyCause.STATE, left) if first_difference(again, backwards) else (LikelyCause.HASH_ORDER, "")


def _failed_to_start(pairs: list[tuple[Case, Played]], traces: list[Trace]) -> bool:
    """Whether every episode broke off at its start there, and none here: what a program set up is missing."""
    there = all(trace.entries and trace.entries[0][1] == "an error" for trace in traces)
    return there and not any(played.trace.entries[0][1] == "an error" for _, played in pairs)


def _difference(base: Played, played: Played) -> Difference | None:
    return None if played.is_timed_out else first_difference(base.trace, played.trace)
