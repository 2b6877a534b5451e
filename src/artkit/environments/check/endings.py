"""How an environment ends: what it leaves open, on every path, and whether it can be cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.environments.check.finding import LikelyCause, Promise
from artkit.environments.check.leftovers import Open, left_open
from artkit.environments.check.playing import ends_when_cancelled

if TYPE_CHECKING:
    from artkit.environments.check.checking import Checking
    from artkit.environments.check.playing import Case

__all__ = ["check_endings"]

# The most replies, and the reply instead of which the model's server fails.
_ENDINGS: dict[str, tuple[int | None, int | None]] = {
    "after the end": (None, None),
    "in the middle": (1, None),
    "after an error": (None, 0),
}
_MAX_NAMED = 3
# Rounds of the event loop after the first request. Not within `reset`: few could then close what they opened.
_CANCELLED_AFTER = (4, 12)


async def check_endings(checking: Checking) -> None:
    """Let an episode end in every way and look at what is left."""
    playable = [case for case, base in checking.base if base.fault is None and not base.is_timed_out]
    if not playable:
        return
    ended = [case for case, base in checking.base if case in playable and base.ended_by_itself]
    for ending, (max_turns, last_turn) in _ENDINGS.items():
        case = (ended or playable)[0] if ending == "after the end" else playable[0]
        if not checking.has(Promise.LEAVES_NOTHING_OPEN):
            await _check_leftovers(checking, case, ending, max_turns, last_turn)
    await _check_cancelling(checking, playable[0])
    for case in ended[:1]:
        await _look_past_the_end(checking, case)
    for name in sorted({base.watched.odd_outcome for _, base in checking.base if base.watched} - {""}):
        checking.note(f"the outcome holds {name}, which a recording keeps as text: give JSON data or a pydantic model")


async def _check_leftovers(
    checking: Checking, case: Case, ending: str, max_turns: int | None, last_turn: int | None
) -> None:
    """Name what two plays in a row both leave: what is opened once and kept for all is no leak."""
    kinds: set[LikelyCause] = set(LikelyCause)
    for is_second in (False, True):
        before = Open.now()
        await checking.judged(case, ending=ending, max_turns=max_turns, last_turn=last_turn)
        left = await left_open(before)
        kinds &= left.keys()
        if not kinds:
            return
        if is_second:
            for kind in sorted(kinds):
                names = ", ".join(sorted(left[kind])[:_MAX_NAMED])
                checking.found(Promise.LEAVES_NOTHING_OPEN, case, f"{ending}, {kind}", kind, evidence=names)


async def _check_cancelling(checking: Checking, case: Case) -> None:
    for rounds in _CANCELLED_AFTER:
        checking.plays += 1
        if not await ends_when_cancelled(
            checking.make,
            case,
            max_turns=checking.settings.max_turns,
            call_timeout_s=checking.settings.call_timeout_s,
            after=rounds,
        ):
            what = "it was cancelled, and the episode went on"
            checking.found(Promise.CANCELS, case, what, LikelyCause.WAITING)
            return


async def _look_past_the_end(checking: Checking, case: Case) -> None:
    played = await checking.play(case, is_asked_after_end=True)
    result = played.watched.after_end if played.watched else None
    if result is not None and not result.done and result.reward:
        said = f"a step after the end said done=False and paid {result.reward!r}"
        checking.note(f"{said}: artkit never asks, but a loop of your own might")
