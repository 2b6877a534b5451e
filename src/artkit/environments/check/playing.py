"""Playing one case in a watched environment, to its end or until something cuts it short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artkit.environments.check.finding import LikelyCause, Promise
from artkit.environments.check.plain import error_text, plain, without_addresses
from artkit.environments.check.replies import Script
from artkit.environments.check.surroundings import Surroundings
from artkit.environments.check.trace import FIRST_MESSAGES, Trace
from artkit.environments.check.watched import Fault, Returned, Watched
from artkit.environments.closing import run_then_close
from artkit.environments.play import Play
from artkit.episodes import Episode
from artkit.errors import EnvironmentContractError

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

    from artkit.environments.environment import Environment

__all__ = ["Case", "CutShort", "Played", "ends_when_cancelled", "play_case"]


class CutShort(Exception):  # noqa: N818  # the check's own way to end an episode
    """Raised by the actor where a play is to end, as a model's server would fail."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One scenario with one series of replies."""

    scenario: Any
    script: Script

    @property
    def scenario_id(self) -> str:
        """The scenario's id, or what stands for it."""
        return str(getattr(self.scenario, "id", self.scenario))


@dataclass(frozen=True, kw_only=True)
class Played:
    """What one play came to.

    Attributes:
        trace: What the environment did.
        watched: The environment, closed; None where there is none.
        fault: The broken promise that ended it.
        faults: Other broken promises.
    """

    trace: Trace
    watched: Watched | None
    fault: Fault | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def close_fault(self) -> Fault | None:
        """What was wrong with `close`."""
        return self.watched.close_fault if self.watched else None

    @property
    def is_timed_out(self) -> bool:
        """Whether a call took too long; such a play is compared with nothing, for each takes as long again."""
        return any(fault is not None and fault.code is Promise.IN_TIME for fault in (self.fault, self.close_fault))

    @property
    def prompt(self) -> Any:
        """The first messages; None where there are none."""
        return next((value for _, what, value in self.trace.entries if what == FIRST_MESSAGES), None)

    @property
    def ended_by_itself(self) -> bool:
        """Whether the environment said that it is done."""
        return any(what == "done" and value is True for _, what, value in self.trace.entries)


@dataclass
class _Actor:
    """The script, up to the reply where the play is cut short."""

    script: Script
    last_turn: int | None = None

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        """Return the reply of this turn."""
        if self.last_turn is not None and turn >= self.last_turn:
            raise CutShort
        return await self.script.act(messages, tools, turn)


async def play_case(
    make: Callable[[], Environment[Any]],
    case: Case,
    surroundings: Surroundings | None = None,
    *,
    max_turns: int,
    call_timeout_s: float | None,
    returned: Returned | None = None,
    last_turn: int | None = None,
    is_asked_after_end: bool = False,
    on_watched: Callable[[Watched], None] | None = None,
) -> Played:
    """Play `case` in a fresh environment and close it.

    Args:
        make: The class or factory.
        case: What to play.
        surroundings: What it runs in; None means as it is.
        max_turns: The most replies; the environment's own limit holds too.
        call_timeout_s: How long one call may take.
        returned: Where what it returns is noted.
        last_turn: After how many replies the actor fails; None lets the play end by itself.
        is_asked_after_end: Whether one more reply is given when it is done, before it is closed.
        on_watched: Is given the watched environment before it is played.
    """
    surroundings = surroundings or Surroundings()
    try:
        watched = Watched(make, surroundings, returned=returned, call_timeout_s=call_timeout_s)
    except Fault as caught:
        trace = Trace()
        trace.add(0, "an error", caught.what)
        return Played(trace=trace, watched=None, fault=caught)
    watched.is_asked_after_end = is_asked_after_end
    if on_watched is not None:
        on_watched(watched)
    episode = Episode(scenario=case.scenario)
    actor = _Actor(case.script, last_turn)
    game = Play(watched, actor, episode, max_turns=max_turns)
    fault: Fault | None = None
    try:
        await run_then_close(game.run, watched, episode)
    except CutShort:
        pass
    except Fault as caught:
        fault = caught
    except EnvironmentContractError as error:
        fault = Fault(Promise.TYPES, watched.turn, without_addresses(error.problem), LikelyCause.RETURN_VALUE)
    except Exception as error:  # noqa: BLE001  # what an environment gives can break the loop in any way
        fault = Fault(Promise.TYPES, watched.turn, error_text(error), LikelyCause.RETURN_VALUE)
    trace = watched.trace
    if fault is not None:
        trace.add(watched.turn, "an error", fault.what)
    trace.add(watched.turn, "the end", episode.stop_reason)
    return Played(trace=trace, watched=watched, fault=fault, faults=(*watched.faults, *_changed(watched, episode)))


def _changed(watched: Watched, episode: Episode) -> list[Fault]:
    """Return what was changed after it was returned: who keeps it, keeps something else than was sent."""
    faults: list[str] = []
    if any(plain(message) != before for message, before in watched.given):
        faults.append("a message changed after it was returned")
    if watched.outcome is not None and plain(episode.outcome) != watched.outcome:
        faults.append("the outcome changed after it was returned")
    return [Fault(Promise.LEAVES_RETURNED, watched.turn, what, LikelyCause.SHARED_OBJECT) for what in faults]


class _Listening(Script):
    """The same script, which notes that it is asked."""

    is_asked = False

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        self.is_asked = True
        return await super().act(messages, tools, turn)


async def ends_when_cancelled(
    make: Callable[[], Environment[Any]], case: Case, *, max_turns: int, call_timeout_s: float | None, after: int
) -> bool:
    """Play `case`, cancel it `after` rounds of the event loop after its first request, and return whether it ended.

    An environment that never waits is over by then, which is fine too.
    """
    script = _Listening.like(case.script)
    case = Case(scenario=case.scenario, script=script)
    watched: list[Watched] = []
    task = asyncio.create_task(
        play_case(make, case, max_turns=max_turns, call_timeout_s=call_timeout_s, on_watched=watched.append)
    )
    try:
        while not (script.is_asked or task.done()):  # noqa: ASYNC110  # rounds are what is counted
            await asyncio.sleep(0)
        for _ in range(after):
            await asyncio.sleep(0)
    finally:
        task.cancel()
    await asyncio.wait({task})
    return not any(one.is_cancel_swallowed for one in watched)
