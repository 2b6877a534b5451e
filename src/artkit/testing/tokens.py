"""A tokenizer for scripted servers: one token per character, its code point as the id.

Nothing is learnt from these ids; they are there because ART trains only on replies that carry them. They hold what a
real server's ids hold: counts that agree with the usage, and a prompt that begins with the prompt and the reply of the
turn before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["logprob_entries", "prompt_text", "reply_text", "token_ids"]

_END = "\x03"


def token_ids(text: str) -> list[int]:
    """Return one id per character.

    >>> token_ids("ab")
    [97, 98]
    """
    return [ord(character) for character in text]


def logprob_entries(ids: Sequence[int], logprobs: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """Return `logprobs.content` as vLLM sends it for ART, with `token_id:<id>` in place of the token's text.

    Args:
        ids: One id per token.
        logprobs: One log probability per token; None makes plausible ones.
    """
    values = [-(1 + token_id % 7) / 10 for token_id in ids] if logprobs is None else logprobs
    return [
        {
            "token": f"token_id:{token_id}",
            "logprob": value,
            "bytes": list(chr(token_id).encode("utf-8", "surrogatepass")) if token_id < 0x110000 else None,
            "top_logprobs": [],
        }
        for token_id, value in zip(ids, values, strict=True)
    ]


def prompt_text(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the conversation as a chat template would render it, up to where the model goes on."""
    turns = [f"{message.get('role')}\n{_text(message)}{_END}" for message in messages]
    return "".join(turns) + "assistant\n"


def reply_text(text: str | None, calls: Iterable[Mapping[str, Any]]) -> str:
    """Return what the model sampled for a reply with that text and those calls."""
    rendered = (json.dumps(call["function"], sort_keys=True) for call in calls)
    return (text or "") + "".join(f"<tool_call>{call}</tool_call>" for call in rendered)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    text = content if isinstance(content, str | None) else json.dumps(content)
    return reply_text(text, message.get("tool_calls") or ())
