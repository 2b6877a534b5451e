"""The judge: messages in, its words out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from artkit.errors import JudgeError

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["Judge", "JudgeReply", "Messages", "judge_name", "read_completion", "read_reply"]

Messages: TypeAlias = list[dict[str, Any]]
"""Messages in OpenAI's form. The content is text; a list of parts only where the judge `sees_pictures`."""

Judge: TypeAlias = "Callable[[Messages], Awaitable[str | JudgeReply | None]]"
"""Any `async judge(messages) -> str`; nothing in the form of the reply is required of it.

Called for several groups at once. It does not retry: an exception that is worth another attempt (a time-out, a broken
connection, 408, 409, 425, 429, 5xx) is simply raised. Being cancelled, it ends. None is a reply without text. Two
attributes are looked at where they exist: `sees_pictures` (bool) and `required_environment` (names of variables).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """One reply of a judge that tells more than its text.

    Attributes:
        text: What it said; None or empty for nothing.
        refusal: Its words where it refused.
        finish_reason: "length" where the reply was cut off.
        prompt_tokens: Tokens that it read.
        completion_tokens: Tokens that it wrote.
        cost_usd: What the reply cost, in US dollars; None where that is unknown.
        model: The LiteLLM name to price `response` by, where ART's price list may know it.
        response: The server's response, for ART's cost metrics.
    """

    text: str | None
    refusal: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None
    response: object = field(default=None, repr=False, compare=False)


def judge_name(judge: Judge) -> str:
    """Return what a judge is called in errors."""
    return getattr(judge, "__qualname__", None) or repr(judge)


def read_reply(reply: object) -> JudgeReply:
    """Return what a judge returned as a `JudgeReply`.

    Raises:
        JudgeError: It is neither that nor a text.
    """
    if isinstance(reply, JudgeReply):
        return reply
    if reply is None or isinstance(reply, str):
        return JudgeReply(text=reply)
    raise JudgeError(
        f"the judge returned {type(reply).__name__} {str(reply)[:200]!r}",
        "a judge returns the text of its reply, or a JudgeReply",
    )


def read_completion(completion: ChatCompletion) -> JudgeReply:
    """Return the reply in a chat completion, or in litellm's response, which has the same shape."""
    usage: Any = getattr(completion, "usage", None)
    choice: Any = completion.choices[0] if completion.choices else None
    message: Any = getattr(choice, "message", None)
    # litellm keeps what is not in its own types beside them.
    beside = getattr(message, "provider_specific_fields", None)
    refusal = getattr(message, "refusal", None) or (beside.get("refusal") if isinstance(beside, Mapping) else None)
    return JudgeReply(
        text=getattr(message, "content", None),
        refusal=refusal,
        finish_reason=getattr(choice, "finish_reason", None),
        prompt_tokens=getattr(usage, "prompt_tokens", None) or 0,
        completion_tokens=getattr(usage, "completion_tokens", None) or 0,
    )
