"""The replies that a check plays: a user's own, those of a recording, and random ones that a model could give."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from artkit.environments.action import Action, ToolCall
from artkit.environments.check.arguments import random_arguments
from artkit.environments.check.known import MAX_WORDS, Field, fields_in, fields_of_observations, words_in
from artkit.errors import ConfigurationError

__all__ = ["Reply", "Script", "as_choice"]

Reply: TypeAlias = "str | Action | ToolCall | Choice | ChatCompletionMessage | Mapping[str, Any]"
"""A reply of the model: its text, one tool call, a message, or a whole choice."""

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
    if hasattr(reply, "tool_calls") and hasattr(reply, "text"):  # one for the scripted server of `artkit.testing`
        return _of_scripted(reply)
    raise ConfigurationError(f"{reply!r} is no reply of a model", _HINT)


_HINT = "give a str, a ToolCall, an Action, a testing.Reply, an assistant message or an openai Choice"


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
        self._fields = list(dict.fromkeys(fields_in(scenario)))[:MAX_WORDS]
        self._known = list(dict.fromkeys(str(value) for _, value in self._fields))

    @classmethod
    def like(cls, script: Script) -> Self:
        """Return a script of this class that plays the same."""
        other = cls(script.name, None, script._given, script._samples)
        other._fields, other._known = script._fields, script._known
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
        words = list(dict.fromkeys([*words_in(messages), *self._known]))
        if tools and rng.random() < 0.75:
            # A sentence ends with a mark that is no part of its last word.
            said = [word.rstrip(".:'/-") for word in words_in(messages)]
            fields = [
                *self._fields,
                *fields_of_observations(messages),
                *(("", int(word)) for word in said if word.isdecimal()),
            ]
            calls = [self._call(rng, tools, said, fields, f"call_{turn}_{n}") for n in range(rng.choice([1, 1, 1, 2]))]
            if all(calls):
                return _choice(_message("", [call for call in calls if call]))
        return _choice(_message(self._text(rng, words), []))

    def _call(
        self,
        rng: random.Random,
        tools: Sequence[Mapping[str, Any]],
        words: Sequence[str],
        known: Sequence[Field],
        call_id: str,
    ) -> tuple[str, str, dict[str, Any]] | None:
        function = rng.choice(tools).get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        arguments = random_arguments(rng, function.get("parameters"), words, known)
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


def _of_scripted(reply: Any) -> Choice:
    """Return what `artkit.testing.Reply` says; what it says about the wire is nothing that an environment hears."""
    calls = [
        call if isinstance(call, Mapping) else _call(f"call_{n}", *call) for n, call in enumerate(reply.tool_calls)
    ]
    message = as_choice({"content": reply.text or None, "tool_calls": calls or None}).message
    return _choice(message, getattr(reply, "finish_reason", None))


def _call(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _message(text: str, calls: Sequence[tuple[str, str, dict[str, Any]]]) -> ChatCompletionMessage:
    tool_calls = [_call(call_id, name, arguments) for call_id, name, arguments in calls]
    content = None if tool_calls and not text else text
    return ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": content, "tool_calls": tool_calls or None}
    )


def _choice(message: ChatCompletionMessage, finish_reason: str | None = None) -> Choice:
    reason = finish_reason or ("tool_calls" if message.tool_calls else "stop")
    return Choice.construct(index=0, message=message, finish_reason=reason, logprobs=None)
