"""What a scripted server answers to one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Reply"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a `ChatServer`: a turn of the model, a refusal, or an accident on the wire.

    Attributes:
        text: The text of the message; None or empty for none.
        tool_calls: The calls, in order: `(name, arguments)` with the arguments as a mapping or as raw text, or a whole
            call as a mapping.
        finish_reason: None is "tool_calls" where there are calls, else "stop".
        reasoning: The text of `reasoning_content`, where the server reports one.
        refusal: The text of a refusal.
        delay_s: How long the server takes, in seconds.
        status: The HTTP status; from 400 on the answer is an error.
        headers: Further headers, such as `{"Retry-After": "1"}`.
        error: The text of an error, or its whole object.
        drop: How the wire breaks: the connection is "refused" (by a port that the client is sent on to, as this server
            has accepted its own by then), the server hangs up "before" answering or in the "mid body" of the answer, or
            sends half of it and is then "stalled" until the client gives up.
        raw_body: Sent instead of everything above: a text as it stands, a mapping as JSON.
        token_ids: The ids of the sampled tokens; None makes one per character.
        prompt_token_ids: The ids of the prompt; None makes one per character of the rendered messages.
        logprobs: The log probability of each sampled token, at most 0; None makes plausible ones, False sends none
            though they were asked for.
        usage: Replaces the token counts.
    """

    text: str | None = ""
    tool_calls: Sequence[tuple[str, Mapping[str, Any] | str] | Mapping[str, Any]] = ()
    finish_reason: str | None = None
    reasoning: str | None = field(default=None, kw_only=True)
    refusal: str | None = field(default=None, kw_only=True)
    delay_s: float = field(default=0.0, kw_only=True)
    status: int = field(default=200, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    error: str | Mapping[str, Any] | None = field(default=None, kw_only=True)
    drop: Literal["refused", "before", "mid body", "stalled"] | None = field(default=None, kw_only=True)
    raw_body: str | Mapping[str, Any] | None = field(default=None, kw_only=True)
    token_ids: Sequence[int] | None = field(default=None, kw_only=True)
    prompt_token_ids: Sequence[int] | None = field(default=None, kw_only=True)
    logprobs: Sequence[float] | Literal[False] | None = field(default=None, kw_only=True)
    usage: Mapping[str, int] | None = field(default=None, kw_only=True)
