"""What a rollout function asked of the model's client, and the turns that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from openai.types.chat.chat_completion import Choice

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

    from artkit.episodes import Episode

__all__ = ["ExchangeRecorder", "model_turns"]


def model_turns(episode: Episode) -> int:
    """Return how many replies of the model an episode holds."""
    return sum(isinstance(turn, Choice) for turn in episode.messages_and_choices)


class ExchangeRecorder:
    """Notes each request to the model and its reply, or the error in its place.

    Passed to `artkit.bridge.with_recorded_client`, which calls it once per request, in the order of the replies.
    """

    def __init__(self) -> None:
        self._exchanges: list[tuple[list[Any], Choice]] = []
        self._tools: Any = None
        self._errors: list[BaseException] = []

    def __call__(self, request: Mapping[str, Any], outcome: ChatCompletion | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._errors.append(outcome)
        elif choices := getattr(outcome, "choices", None):
            self._exchanges.append((list(request.get("messages") or ()), choices[0]))
            self._tools = request.get("tools") or self._tools

    def blame(self, error: BaseException) -> Literal["model", "environment"]:
        """Return whom the function was waiting for when `error` ended it."""
        chain: BaseException | None = error
        while chain is not None:
            if any(chain is known for known in self._errors):
                return "model"
            chain = chain.__cause__ or chain.__context__
        return "environment"

    def write_turns(self, episode: Episode) -> None:
        """Write the last conversation into `episode`, the model's replies as the server's own choices."""
        if not self._exchanges:
            return
        messages, last = self._exchanges[-1]
        turns = list(messages)
        for sent, choice in self._exchanges[:-1]:
            # The reply to the first n messages is message n of every request that carries the conversation on.
            at = len(sent)
            if at < len(turns) and messages[:at] == sent and _role(turns[at]) == "assistant":
                turns[at] = choice
        episode.messages_and_choices = [*turns, last]
        episode.tools = self._tools or None


def _role(message: Any) -> str | None:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)
