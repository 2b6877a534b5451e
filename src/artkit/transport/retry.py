"""One request, sent until there is a reply or the budget is spent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_never,
    wait_exponential,
    wait_random,
)

from artkit.errors import ConfigurationError
from artkit.transport.errors import is_retryable, retry_after_s
from artkit.transport.whole_reply import why_no_reply

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

    from artkit.transport.sampling_client import SamplingClient, SamplingRequest

__all__ = ["RetryPolicy", "call_with_retry", "complete_with_retry"]

ResultT = TypeVar("ResultT")

MayRetry: TypeAlias = Callable[[BaseException, Sequence[BaseException]], bool]
"""Whether there is another attempt after a failure, given those that there was one after already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait between attempts.

    The wait before retry n is `initial_wait_s * 2**(n-1)` plus up to `initial_wait_s` at random, at most `max_wait_s`;
    and never less than what the server asked for in `Retry-After`, up to `max_retry_after_s`, with as much at random on
    top: it asks a thousand rollouts for the same wait, and is not to be met by all of them at once.

    Attributes:
        initial_wait_s: The wait before the first retry, in seconds, without its random part.
        max_wait_s: The longest wait of our own choosing, in seconds.
        max_retry_after_s: The longest wait that a server may ask for, in seconds. Beyond it, trying too early and being
            refused is better than standing still.
        budget_s: How long after the first failure a further attempt may begin, in seconds; what would wait beyond it is
            not waited for. None is no limit.
        sleep: Waits that many seconds; a test hands in one that does not.
        clock: Tells the time, in seconds.
    """

    initial_wait_s: float = 0.5
    max_wait_s: float = 30.0
    max_retry_after_s: float = 120.0
    budget_s: float | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        for name in ("initial_wait_s", "max_wait_s", "max_retry_after_s", "budget_s"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ConfigurationError(f"{name}={value!r} is negative", "give it 0 or more seconds")


async def complete_with_retry(
    client: SamplingClient,
    request: SamplingRequest,
    *,
    max_retries: int,
    policy: RetryPolicy | None = None,
    may_retry: MayRetry | None = None,
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
        may_retry: Decides in place of `max_retries` and `is_retryable`.
        on_retry: Called before each attempt after the first.
        on_discard: Called with each reply that is empty or was broken off, whose tokens were paid for all the same.

    Raises:
        EmptyReplyError: Every attempt was answered without a whole reply in it.
        TimeoutError: The last attempt ran into `request.timeout_s`.
        openai.APIError: The last attempt's failure, or the first that is not worth a retry.
    """

    async def ask() -> ChatCompletion:
        completion = await client.complete(request)
        if (error := why_no_reply(completion, request.model)) is None:
            return completion
        if on_discard is not None:
            on_discard(completion)
        raise error

    return await call_with_retry(ask, max_retries=max_retries, policy=policy, may_retry=may_retry, on_retry=on_retry)


async def call_with_retry(
    call: Callable[[], Awaitable[ResultT]],
    *,
    max_retries: int,
    policy: RetryPolicy | None = None,
    may_retry: MayRetry | None = None,
    on_retry: Callable[[], None] | None = None,
) -> ResultT:
    """Await `call()` until it returns; what cannot succeed on a second try is raised at once.

    Cancelling it cancels the attempt or the wait that it is in.

    Args:
        call: Makes one attempt; `is_retryable` says which of its exceptions are worth another.
        max_retries: How many attempts may follow the first.
        policy: How long to wait in between; None is `RetryPolicy()`.
        may_retry: Decides in place of `max_retries` and `is_retryable`.
        on_retry: Called before each attempt after the first.

    Raises:
        ConfigurationError: `max_retries` is negative.
        Exception: The last attempt's, or the first that is not worth a retry.
    """
    if max_retries < 0:
        raise ConfigurationError(f"max_retries={max_retries!r} is negative", "give it 0 to try once")
    policy = policy or RetryPolicy()
    may_retry = may_retry or (lambda error, retried: is_retryable(error) and len(retried) < max_retries)
    retried: list[BaseException] = []

    def is_worth_it(error: BaseException) -> bool:
        # A cancellation is an order, whatever a rule of the caller's says.
        if not isinstance(error, Exception) or not may_retry(error, retried):
            return False
        retried.append(error)
        return True

    async def attempt() -> ResultT:
        if retried and on_retry is not None:
            on_retry()
        return await call()

    retrying = AsyncRetrying(
        stop=stop_never if policy.budget_s is None else _Budget(policy.budget_s, policy.clock),
        wait=_wait(policy),
        retry=retry_if_exception(is_worth_it),
        sleep=policy.sleep,
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except asyncio.CancelledError as error:
        if retried and error.__cause__ is None:
            # A deadline that ends the retries is not what went wrong: it came from the last failure.
            error.__cause__ = retried[-1]
        raise


class _Budget:
    """Stops when the next attempt would begin too late; of one call."""

    def __init__(self, budget_s: float, clock: Callable[[], float]) -> None:
        self._budget_s = budget_s
        self._clock = clock
        self._began_s: float | None = None

    def __call__(self, state: RetryCallState) -> bool:
        now_s = self._clock()
        if self._began_s is None:
            self._began_s = now_s
        return now_s + state.upcoming_sleep - self._began_s > self._budget_s


def _wait(policy: RetryPolicy) -> Callable[[RetryCallState], float]:
    backoff_s = wait_exponential(multiplier=policy.initial_wait_s)
    jitter_s = wait_random(max=policy.initial_wait_s)

    def wait_s(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked_s = retry_after_s(error) if error is not None else None
        own_s = min(backoff_s(state) + jitter_s(state), policy.max_wait_s)
        return own_s if asked_s is None else max(own_s, min(asked_s, policy.max_retry_after_s) + jitter_s(state))

    return wait_s
