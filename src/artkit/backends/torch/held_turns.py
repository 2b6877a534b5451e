"""The conversations of a trajectory, with each reply to be learnt once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice

from artkit.bridge import conversations
from artkit.errors import BackendError

if TYPE_CHECKING:
    import art

__all__ = ["HeldTurns", "held_turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTurns:
    """One conversation.

    Attributes:
        turns: In order, each with whether it is new: conversations that branch share replies.
        tools: The tools that were on offer, or None.
    """

    turns: Sequence[tuple[Choice | Mapping[str, Any], bool]]
    tools: Sequence[Mapping[str, Any]] | None


def held_turns(trajectory: art.Trajectory) -> list[HeldTurns]:
    """The conversations of `trajectory`: its own and the additional ones, or those that ART captured.

    Raises:
        BackendError: ART captured something that is no chat.
    """
    try:
        held = conversations(trajectory)
    except ValueError as error:
        raise BackendError(
            f"a trajectory cannot be read as a chat: {error}", "sample with chat completions, not with plain text"
        ) from error
    known: set[int] = set()
    found: list[HeldTurns] = []
    for conversation in held:
        turns = [(turn, id(turn) not in known) for turn in conversation.turns]
        found.append(HeldTurns(turns=turns, tools=conversation.tools))
        known |= {id(turn) for turn in conversation.turns if isinstance(turn, Choice)}
    return found
