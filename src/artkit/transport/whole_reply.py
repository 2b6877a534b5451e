"""Telling a reply of the model from an answer that holds none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openai.types.chat import ChatCompletionMessage

from artkit.errors import EmptyReplyError
from artkit.transport.errors import OverflowReplyError, RefusalReplyError, reported_status, says_overflow

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

__all__ = ["why_no_reply"]

_BROKEN_OFF = frozenset({
    "abort", "cancelled", "error", "insufficient_system_resource", "network_error", "timeout",
})  # fmt: skip
"""Why generation stopped, where neither the model nor its limit stopped it: the words of vLLM, SGLang, LMDeploy,
OpenRouter, DeepSeek, Z.ai and TensorRT-LLM."""

_LMDEPLOY = "internal error happened, status code "
_HINT = "look into the server's log; a higher max_retries helps where it happens now and then"


def why_no_reply(completion: ChatCompletion, model: str) -> EmptyReplyError | None:
    """Return what to raise where `completion` holds no whole reply of the model; None where it holds one.

    Args:
        completion: What the server sent. The OpenAI client checks nothing of it.
        model: Whom it was asked for, for the error's text.
    """
    choices: Any = completion.choices
    choice: Choice | None = choices[0] if isinstance(choices, list) and choices else None
    message: Any = getattr(choice, "message", None)
    if choice is None or not isinstance(message, ChatCompletionMessage):
        return _failure(f"the server of {model!r} answered without a reply in it", _said_beside(completion), model)
    reason = str(getattr(choice, "finish_reason", None)).casefold()
    if reason in _BROKEN_OFF:
        # What was sampled until then is no action of the model: it was about to go on.
        problem = f"the server of {model!r} broke its reply off, finish_reason={reason!r}"
        return _failure(problem, _what_the_server_says(choice, message), model)
    if not _is_empty(choice, message):
        return None
    if reason == "length":
        tokens = getattr(completion.usage, "completion_tokens", None)
        if tokens == 0:  # LMDeploy's way of saying that the prompt leaves no room
            return _overflow(model)
        if tokens:  # all of them went into a reasoning that the server keeps to itself
            return None
    return EmptyReplyError(f"the server of {model!r} answered without a reply in it", _HINT)


def _failure(problem: str, said: object, model: str) -> EmptyReplyError:
    """Return what to raise where a server says of its failure `said`, which may be nothing."""
    if says_overflow(said):
        return _overflow(model)
    if said:
        problem += f": {said}"
    status = reported_status(said)
    return EmptyReplyError(problem, _HINT) if status is None else RefusalReplyError(problem, _HINT, status)


def _overflow(model: str) -> OverflowReplyError:
    return OverflowReplyError(
        f"the conversation outgrew the context of {model!r}",
        "give fewer turns, shorter observations or a longer context",
    )


def _said_beside(completion: ChatCompletion) -> object:
    """Return the error in an answer that holds no choice: OpenRouter's object, or the whole of vLLM's answer."""
    extra: Mapping[str, Any] = completion.model_extra or {}
    return extra.get("error") or (extra if reported_status(extra) or "message" in extra else None)


def _what_the_server_says(choice: Choice, message: ChatCompletionMessage) -> object:
    """Return what is said of the failure: never the model's text, which may say anything."""
    content = message.content
    if isinstance(content, str) and content.startswith(_LMDEPLOY):
        return content
    return (choice.model_extra or {}).get("error")  # OpenRouter's


def _is_empty(choice: Choice, message: ChatCompletionMessage) -> bool:
    """Whether there is nothing in the reply, and nothing on record that the model sampled.

    A policy may well sample its end token first. That is an action like any other: asking again until it says something
    would train it on a distribution that it does not have.
    """
    extra = message.model_extra or {}
    said = (
        message.content,
        message.tool_calls,
        message.refusal,
        message.function_call,
        message.audio,
        extra.get("reasoning_content"),
        extra.get("reasoning"),
    )
    logprobs = getattr(choice, "logprobs", None)
    sampled = getattr(logprobs, "content", None)
    return not any((*said, sampled, (choice.model_extra or {}).get("token_ids")))
