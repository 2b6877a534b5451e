"""What a rollout function asked of the model's client, and the turns that follow from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from artkit.bridge import error_chain

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

    from artkit.episodes import Episode

__all__ = ["ExchangeRecorder"]


@dataclass(frozen=True, eq=False)
class _Exchange:
    """One request and the model's reply to it; `before` is the exchange that its messages carry on."""

    messages: list[Any]
    tools: Any
    choice: Choice
    before: _Exchange | None
    turns: int


class ExchangeRecorder:
    """Notes each request to the model and its reply, or the error in its place.

    Passed to `artkit.bridge.with_recorded_client`, which calls it once per request, in the order of the replies.

    Args:
        on_reply: Called for each reply.

    Attributes:
        tokens: The tokens that the server reported, summed, by metric.
    """

    def __init__(self, on_reply: Callable[[], None] = lambda: None) -> None:
        self.tokens: Counter[str] = Counter()
        self._exchanges: list[_Exchange] = []
        self._on_reply = on_reply
        self._errors: list[BaseException] = []

    def __call__(self, request: Mapping[str, Any], outcome: ChatCompletion | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._errors.append(outcome)
            return
        self._on_reply()
        if outcome.usage is not None:
            self.tokens["prompt_tokens"] += outcome.usage.prompt_tokens or 0
            self.tokens["completion_tokens"] += outcome.usage.completion_tokens or 0
        if outcome.choices:
            messages = list(request.get("messages") or ())
            before = self._before(messages)
            turns = before.turns + 1 if before else 1
            self._exchanges.append(_Exchange(messages, request.get("tools"), outcome.choices[0], before, turns))

    def error_behind(self, error: BaseException) -> BaseException | None:
        """Return the error of a request that `error` is or came from; None where the model is not to blame."""
        return next((link for link in error_chain(error) if any(link is known for known in self._errors)), None)

    def write_turns(self, episode: Episode) -> None:
        """Write the conversation with the most replies, of equals the last, into `episode`.

        The model's replies are the server's own choices. What was asked beside it (a summary, a second opinion) is no
        part of the conversation that the rollout would have returned.
        """
        if not self._exchanges:
            return
        last = max(reversed(self._exchanges), key=lambda exchange: exchange.turns)
        turns = [_as_message(message) for message in last.messages]
        earlier = last.before
        while earlier is not None:
            turns[len(earlier.messages)] = earlier.choice
            earlier = earlier.before
        episode.messages_and_choices = [*turns, last.choice]
        episode.tools = list(last.tools) if last.tools else None

    def _before(self, messages: list[Any]) -> _Exchange | None:
        """Return the longest exchange whose messages and reply `messages` begin with."""
        earlier = [exchange for exchange in self._exchanges if _carries_on(messages, exchange)]
        # Of several replies to the same messages, the one that was gone on with; where all were edited, the last.
        return max(
            reversed(earlier),
            key=lambda exchange: (len(exchange.messages), _says(messages[len(exchange.messages)], exchange.choice)),
            default=None,
        )


def _carries_on(messages: list[Any], exchange: _Exchange) -> bool:
    # The reply to the first n messages is message n of every request that carries the conversation on.
    at = len(exchange.messages)
    return at < len(messages) and _field(messages[at], "role") == "assistant" and messages[:at] == exchange.messages


def _says(message: Any, choice: Choice) -> bool:
    return (_field(message, "content") or "") == (choice.message.content or "")


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _as_message(message: Any) -> Any:
    # Rollouts put the client's own message objects among their dicts; ART's trajectories hold dicts.
    return message.model_dump(exclude_none=True) if isinstance(message, BaseModel) else message
