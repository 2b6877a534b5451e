"""The judge: messages in, its words out."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from artkit.errors import JudgeError
from artkit.rewards.settings import is_number
from artkit.secrets import scrub

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["Judge", "JudgeReply", "Messages", "judge_name", "read_completion", "read_reply"]

Messages: TypeAlias = list[dict[str, Any]]
"""Messages in OpenAI's form. The content is text; a list of parts only where the judge `sees_pictures`."""


class Judge(Protocol):
    """Any `async judge(messages) -> str`; nothing in the form of the reply is required of it.

    Called once per group, for several groups at once, and again when its reply could not be used. It does not retry: an
    exception that is worth another attempt (a time-out, a broken connection, 408, 409, 425, 429, 5xx) is simply raised.
    Being cancelled, it ends. Two attributes are looked at where they exist: `sees_pictures` (bool) and
    `required_environment` (names of variables).
    """

    def __call__(self, messages: Messages, /) -> Awaitable[str | JudgeReply | None]:
        """Return the judge's reply; None is a reply without text.

        Args:
            messages: In OpenAI's form, to be sent as they are: `{"role": "system", "content": <the task>}`, then
                `{"role": "user", "content": <the transcripts>}`; when it is asked again, its reply and what was wrong
                with it follow. The content is text; to a judge that sees, that of a message with pictures is a list of
                parts, `{"type": "text", "text": …}` and `{"type": "image_url", "image_url": {"url": …}}`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """One reply of a judge that tells more than its text.

    Attributes:
        text: What it said; None or empty for nothing.
        refusal: Its words where it refused.
        finish_reason: "length" where the reply was cut off.
        prompt_tokens: Tokens that it read.
        completion_tokens: Tokens that it wrote.
        cost_usd: What the reply cost, in US dollars; None where that is unknown, as is one that is no price.
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
    read = reply if isinstance(reply, JudgeReply) else JudgeReply(text=reply)  # type: ignore[arg-type]  # checked here
    if read.text is not None and not isinstance(read.text, str):
        raise JudgeError(
            f"the judge returned {type(read.text).__name__} {scrub(str(read.text))[:200]!r}",
            "a judge returns the text of its reply, or a JudgeReply",
        )
    # What a reply cost is beside the point of what it says: numbers that are none don't cost a verdict.
    return dataclasses.replace(
        read,
        prompt_tokens=_count(read.prompt_tokens),
        completion_tokens=_count(read.completion_tokens),
        cost_usd=read.cost_usd if is_number(read.cost_usd) and read.cost_usd >= 0 else None,
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
        text=_text(getattr(message, "content", None)),
        refusal=refusal,
        finish_reason=getattr(choice, "finish_reason", None),
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
    )


def _text(content: Any) -> Any:
    """Return the content of a message as text: some servers send a list of parts, reasoning among them."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") in {"text", "output_text"}]
    return "".join(str(part.get("text") or "") for part in parts)


def _count(tokens: object) -> int:
    """Return a count of tokens; 0 where a server reports none, or something else."""
    if isinstance(tokens, str) and tokens.isdecimal():
        return int(tokens)
    return int(tokens) if is_number(tokens) else 0
