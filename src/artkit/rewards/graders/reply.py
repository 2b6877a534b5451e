"""What the model said last, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art

__all__ = ["answer_text", "reply_text"]

_OPEN, _CLOSE = "<think>", "</think>"


def reply_text(trajectory: art.Trajectory) -> str | None:
    """Return the text of the model's last turn as the server gave it; None if the model never had a turn.

    A turn that only calls tools has the text "".
    """
    for message in reversed(trajectory.messages()):
        if message["role"] == "assistant":
            return _text(message.get("content"))
    return None


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


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
