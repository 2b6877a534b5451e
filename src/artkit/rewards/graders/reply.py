"""What the model said last, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.rewards.turns import replies, reply_text_of

if TYPE_CHECKING:
    import art

__all__ = ["answer_text", "reply_text"]

_OPEN, _CLOSE = "<think>", "</think>"


def reply_text(trajectory: art.Trajectory) -> str | None:
    """Return the text of the model's last turn as the server gave it; None if the model never had a turn.

    A turn that only calls tools has the text "".
    """
    turns = replies(trajectory)
    return reply_text_of(turns[-1]) if turns else None


def answer_text(trajectory: art.Trajectory) -> str | None:
    """Return the text of the model's last turn after its reasoning: what stands behind the last `</think>`.

    Reasoning that was cut off before its `</think>` leaves no answer, so the text is "". None if the model never had
    a turn.
    """
    text = reply_text(trajectory)
    if text is None:
        return None
    _, closed, rest = text.rpartition(_CLOSE)
    if closed:
        return rest.strip()
    return "" if text.lstrip().startswith(_OPEN) else text.strip()
