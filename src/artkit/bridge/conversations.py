"""What was said in a trajectory, however ART holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import art
    from openai.types.chat.chat_completion import Choice

__all__ = ["Conversation", "conversations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation of a trajectory.

    Attributes:
        turns: In order: the model's replies as the server's own `Choice` where it is known, else messages as mappings.
        tools: The tools that were on offer, or None.
    """

    turns: Sequence[Choice | Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None


def conversations(trajectory: art.Trajectory) -> list[Conversation]:
    """Return the conversations of `trajectory`, the main one first.

    Raises:
        ValueError: ART captured something that is no chat (plain text completions).
    """
    if getattr(trajectory, "exchanges", None):
        # Captured by itself; only ART 0.5.23 and later does that.
        histories = [history.as_chat_completions_history() for history in trajectory.histories()]  # type: ignore[attr-defined]
        return [Conversation(turns=_captured(history), tools=history.tools) for history in histories]
    held: list[Any] = [trajectory, *trajectory.additional_histories]
    return [Conversation(turns=history.messages_and_choices, tools=history.tools) for history in held]


def _captured(history: Any) -> list[Choice | Mapping[str, Any]]:
    """Return the messages of a captured history, with the `Choice` in place of each reply that came as one."""
    turns: list[Choice | Mapping[str, Any]] = []
    for message, source in zip(history.messages, history.message_sources, strict=True):
        choices = getattr(getattr(getattr(source, "exchange", None), "response", None), "choices", None)
        index = getattr(source, "choice_index", None)
        turns.append(message if choices is None or index is None else choices[index])
    return turns
