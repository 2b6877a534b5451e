"""One request, sent until there is a reply or the budget is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from artkit.errors import ConfigurationError, EmptyReplyError
from artkit.transport.errors import is_retryable, retry_after_s

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

    from artkit.transport.sampling_client import SamplingClient, SamplingRequest

__all__ = ["RetryPolicy", "call_with_retry", "complete_with_retry"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait between attempts.

    The wait before retry n is `initial_wait_s * 2**(n-1)` plus up to `initial_wait_s` at random, at most `max_wait_s`;
    and never less than what the server asked for in `Retry-After`, up to `max_retry_after_s`.

    Attributes:
        initial_wait_s: The wait before the first retry, in seconds, without its random part.
        max_wait_s: The longest wait of our own choosing, in seconds.
        max_retry_after_s: The longest wait that a server may ask for, in seconds. Beyond it, trying too early and being
            refused is better than standing still.
        sleep: Waits that many seconds; a test hands in one that does not.
    """

    initial_wait_s: float = 0.5
    max_wait_s: float = 30.0
    max_retry_after_s: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        for name in ("initial_wait_s", "max_wait_s", "max_retry_after_s"):
            if (value := getattr(self, name)) < 0:
                raise ConfigurationError(f"{name}={value!r} is negative", "give it 0 or more seconds")


async def complete_with_retry(
    client: SamplingClient,
    request: SamplingRequest,
    *,
    max_retries: int,
    policy: RetryPolicy | None = None,
    on_retry: Callable[[], None] | None = None,
    on_discard: Callable[[ChatCompletion], None] | None = None,
) -> ChatCompletion:
    """Ask `client` until it replies; what cannot succeed on a second try is raised at once.

    Cancelling it cancels the attempt or the wait that it is in.

    Args:
        client: Whom to ask; called one attempt at a time.
        request: What to ask; the same for every attempt.
        max_retries: How many attempts may follow the first.
        policy: How long to wait in between; None is `RetryPolicy()`.
        on_retry: Called before each attempt after the first.
        on_discard: Called with each empty reply, whose tokens were paid for all the same.

    Raises:
        EmptyReplyError: Every attempt was answered without a reply in it.
        TimeoutError: The last attempt ran into `request.timeout_s`.
        openai.APIError: The last attempt's failure, or the first that is not worth a retry.
    """

    async def ask() -> ChatCompletion:
        completion = await client.complete(request)
        if not _is_empty(completion):
            return completion
        if on_discard is not None:
            on_discard(completion)
        raise EmptyReplyError(
            f"the server of {request.model!r} answered without a reply in it",
            "look into the server's log; a higher max_retries helps where it happens now and then",
        )

    return await call_with_retry(ask, max_retries=max_retries, policy=policy, on_retry=on_retry)


async def call_with_retry(
    call: Callable[[], Awaitable[ResultT]],
    *,
    max_retries: int,
    policy: RetryPolicy | None = None,
    on_retry: Callable[[], None] | None = None,
) -> ResultT:
    """Await `call()` until it returns; what cannot succeed on a second try is raised at once.

    Cancelling it cancels the attempt or the wait that it is in.

    Args:
        call: Makes one attempt; `is_retryable` says which of its exceptions are worth another.
        max_retries: How many attempts may follow the first.
        policy: How long to wait in between; None is `RetryPolicy()`.
        on_retry: Called before each attempt after the first.

    Raises:
        ConfigurationError: `max_retries` is negative.
        Exception: The last attempt's, or the first that is not worth a retry.
    """
    if max_retries < 0:
        raise ConfigurationError(f"max_retries={max_retries!r} is negative", "give it 0 to try once")
    policy = policy or RetryPolicy()
    retrying = AsyncRetrying(
        stop=stop_after_attempt(max_retries + 1),
        wait=_wait(policy),
        retry=retry_if_exception(is_retryable),
        sleep=policy.sleep,
        reraise=True,
    )
    is_first = True

    async def attempt() -> ResultT:
        nonlocal is_first
        if not is_first and on_retry is not None:
            on_retry()
        is_first = False
        return await call()

    return await retrying(attempt)


def _wait(policy: RetryPolicy) -> Callable[[RetryCallState], float]:
    backoff_s = wait_exponential(multiplier=policy.initial_wait_s) + wait_random(max=policy.initial_wait_s)

    def wait_s(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked_s = (retry_after_s(error) if error is not None else None) or 0.0
        return max(min(backoff_s(state), policy.max_wait_s), min(asked_s, policy.max_retry_after_s))

    return wait_s


def _is_empty(completion: ChatCompletion) -> bool:
    """Whether there is nothing in the reply, and nothing on record that the model sampled.

    A policy may well sample its end token first. That is an action like any other: asking again until it says something
    would train it on a distribution that it does not have.
    """
    if not completion.choices:
        return True
    choice = completion.choices[0]
    message: ChatCompletionMessage | None = choice.message
    if message is None:  # against the type, but servers do
        return True
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
    sampled = choice.logprobs is not None and choice.logprobs.content
    return not any((*said, sampled, (choice.model_extra or {}).get("token_ids")))
