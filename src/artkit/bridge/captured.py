"""Turns that are held elsewhere than in a trajectory's own messages: further histories, and what ART captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from openai.types.chat.chat_completion import Choice

if TYPE_CHECKING:
    import art

__all__ = ["dump_captured", "further_history", "load_captured", "model_turns"]


def model_turns(trajectory: art.Trajectory) -> int:
    """Return how many replies of the model a trajectory holds, whichever way they got there."""
    captured = getattr(trajectory, "exchanges", ())  # by protocol
    return sum(isinstance(turn, Choice) for turn in trajectory.messages_and_choices) + sum(
        len(exchanges) for _, exchanges in captured
    )


def dump_captured(trajectory: art.Trajectory) -> Any:
    """Return the turns that ART captured by itself as JSON data; None where there are none.

    ART 0.5.23 and later does that, in `with art.Trajectory()`.
    """
    exchanges = getattr(trajectory, "exchanges", None)
    return exchanges.model_dump(mode="json", warnings=False) if exchanges else None


def load_captured(data: Any) -> dict[str, Any]:
    """Return the fields of a trajectory that hold what `dump_captured` returned; none for None."""
    import art

    if data is None:
        return {}
    kind: Any = art.Trajectory.model_fields["exchanges"].annotation
    return {"exchanges": kind.model_validate(data)}


def further_history(turns: Sequence[Any], tools: Any) -> Any:
    """Return one of a trajectory's `additional_histories`, whose class has another name in each ART version."""
    import art

    (kind,) = get_args(art.Trajectory.model_fields["additional_histories"].annotation)
    return kind.model_construct(messages_and_choices=list(turns), tools=tools)
