"""The replies that a check plays: a user's own, those of a recording, and random ones that a model could give."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Self, TypeAlias

from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel

from artkit.environments.action import Action, ToolCall
from artkit.environments.check.arguments import random_arguments
from artkit.errors import ConfigurationError

__all__ = ["Reply", "Script", "as_choice"]

Reply: TypeAlias = "str | Action | ToolCall | Choice | ChatCompletionMessage | Mapping[str, Any]"
"""A reply of the model: its text, one tool call, a message, or a whole choice."""

_WORD = re.compile(r"[^\W_][\w./:@'-]{0,40}")
_MAX_WORDS = 60
_TEXTS = ("", "yes", "no", "0", "1", "7", "-3", "I don't know.", "help", "{}", "naïve café 🙂", "a\nb", "word " * 300)


def as_choice(reply: Reply) -> Choice:
    """Return `reply` as a server would send it.

    Raises:
        ConfigurationError: It is no reply.
    """
    if isinstance(reply, Choice):
        return reply
    if isinstance(reply, Action):
        return _choice(reply.message, reply.finish_reason)
    if isinstance(reply, ToolCall):
        return _choice(_message("", [(reply.id or "call_0", reply.name, reply.arguments)]))
    if isinstance(reply, str):
        return _choice(_message(reply, []))
    if isinstance(reply, Mapping):
        try:
            reply = ChatCompletionMessage.model_validate({"role": "assistant", **reply})
        except ValueError as error:
            raise ConfigurationError(f"{reply!r} is no reply of a model: {error}", _HINT) from error
    if isinstance(reply, ChatCompletionMessage):
        return _choice(reply)
    raise ConfigurationError(f"{reply!r} is no reply of a model", _HINT)


_HINT = "give a str, a ToolCall, an Action, an assistant message or an openai Choice"


class Script:
    """An actor whose replies follow from its name, the turn and what it is shown; it can be pickled and played again.

    Args:
        name: Seeds the random replies.
        scenario: Texts and numbers in it are tried as replies: a label is often the way to a good end.
        given: The first replies, in order.
        samples: Replies that are mixed among the random ones.

    Attributes:
        uncalled: Tools for whose schema no valid arguments were found.
    """

    def __init__(self, name: str, scenario: Any, given: Sequence[Choice] = (), samples: Sequence[Choice] = ()) -> None:
        self.name = name
        self.uncalled: set[str] = set()
        self._given = list(given)
        self._samples = list(samples)
        self._known = list(dict.fromkeys(_texts_in(scenario)))[:_MAX_WORDS]

    @classmethod
    def like(cls, script: Script) -> Self:
        """Return a script of this class that plays the same."""
        other = cls(script.name, None, script._given, script._samples)
        other._known = script._known
        return other

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        """Return the reply of this turn, once others had theirs."""
        rng = random.Random(f"{self.name}/{turn}")
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(0)
        if turn < len(self._given):
            return self._given[turn]
        if self._samples and rng.random() < 0.5:
            return rng.choice(self._samples)
        words = list(dict.fromkeys([*_words_in(messages), *self._known]))
        if tools and rng.random() < 0.75:
            calls = [self._call(rng, tools, words, f"call_{turn}_{n}") for n in range(rng.choice([1, 1, 1, 2]))]
            if all(calls):
                return _choice(_message("", [call for call in calls if call]))
        return _choice(_message(self._text(rng, words), []))

    def _call(
        self, rng: random.Random, tools: Sequence[Mapping[str, Any]], words: Sequence[str], call_id: str
    ) -> tuple[str, str, dict[str, Any]] | None:
        function = rng.choice(tools).get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        arguments = random_arguments(rng, function.get("parameters"), words)
        if arguments is None:
            self.uncalled.add(function["name"])
            return None
        return call_id, function["name"], arguments

    def _text(self, rng: random.Random, words: Sequence[str]) -> str:
        way = rng.random()
        if way < 0.35 and self._known:
            return rng.choice(self._known)
        if way < 0.65 and words:
            return rng.choice(words)
        if way < 0.8 and words:
            return " ".join(rng.choices(words, k=rng.randint(2, 8)))
        return rng.choice([*_TEXTS, str(rng.randint(0, 100))])


def _message(text: str, calls: Sequence[tuple[str, str, dict[str, Any]]]) -> ChatCompletionMessage:
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    content = None if tool_calls and not text else text
    return ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": content, "tool_calls": tool_calls or None}
    )


def _choice(message: ChatCompletionMessage, finish_reason: str | None = None) -> Choice:
    reason = finish_reason or ("tool_calls" if message.tool_calls else "stop")
    return Choice.construct(index=0, message=message, finish_reason=reason, logprobs=None)


def _words_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the last words that the environment said: what it mentions is often what it understands."""
    said = " ".join(
        message["content"]
        for message in messages[-3:]
        if message.get("role") != "assistant" and isinstance(message.get("content"), str)
    )
    return _WORD.findall(said[-4000:])[-_MAX_WORDS:]


def _texts_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the short texts and the numbers in a scenario."""
    if isinstance(value, str):
        if 0 < len(value) <= 200:
            yield value
    elif isinstance(value, int | float):
        if not isinstance(value, bool):
            yield str(value)
    elif depth <= 3:
        for item in _items_of(value):
            yield from _texts_in(item, depth + 1)


def _items_of(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())[:_MAX_WORDS]
    if isinstance(value, list | tuple):
        return list(value[:_MAX_WORDS])
    if isinstance(value, BaseModel):
        return [getattr(value, name) for name in type(value).model_fields]
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value)]
    return []
