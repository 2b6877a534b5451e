"""The one seam for sampling: messages and tools in, a chat completion out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["SamplingClient", "SamplingRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """One request to a model.

    Attributes:
        model: The inference name, as the server knows it.
        messages: What is sent, already safe for the server's chat template.
        tools: The tools on offer; None or empty sends none.
        temperature: 0 or more.
        top_p: In (0, 1].
        max_completion_tokens: The most tokens of the reply; None leaves it to the server.
        stop: Where generation ends, besides the model's own end.
        seed: The server's sampling seed; None leaves it to the server.
        logprobs: Whether to ask for the log probability of each sampled token; training needs them.
        timeout_s: The deadline of one attempt, in seconds; None is no limit.
        extra_body: Further fields of the request's body, for servers that know more than OpenAI's.
    """

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    max_completion_tokens: int | None = None
    stop: str | Sequence[str] | None = None
    seed: int | None = None
    logprobs: bool = False
    timeout_s: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class SamplingClient(Protocol):
    """Whoever can sample a reply: an OpenAI-compatible server, or a backend in the same process.

    Rollouts call `complete` once per attempt of a model turn, many at once on one event loop. `close` is called once
    every rollout of the session ended; closing twice is harmless.
    """

    async def complete(self, request: SamplingRequest) -> ChatCompletion:
        """Answer one request, or raise.

        An implementation does not retry: `complete_with_retry` does. It keeps the request's deadline.

        Raises:
            TimeoutError: `request.timeout_s` passed.
            openai.APIError: The server refused, failed or could not be reached.
        """
        ...

    async def close(self) -> None:
        """Release what the client holds; idempotent."""
        ...
