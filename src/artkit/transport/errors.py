"""What an exception of the transport means: retry it, wait for it, end the episode, or stop the run.

Pure functions over the exceptions of openai, litellm (which derive from openai's), httpx, aiohttp and asyncio. Each
looks at the exception itself, not at its causes: whoever wraps an exception has decided what it means.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
import httpx
import openai

from artkit.errors import ArtkitError, EmptyReplyError

__all__ = [
    "OverflowReplyError",
    "RefusalReplyError",
    "is_connection_failure",
    "is_context_overflow",
    "is_fatal",
    "is_retryable",
    "reported_status",
    "retry_after_s",
    "says_overflow",
    "status_code",
]

_RETRYABLE_STATUSES = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
_FATAL_STATUSES = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
)
_OVERFLOW_STATUSES = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        # Old llama.cpp servers answer an overflow with 500.
        HTTPStatus.INTERNAL_SERVER_ERROR,
    }
)

# Servers share no code for an overflow; each has its own words.
_OVERFLOW_WORDINGS = (
    r"context_(?:length|window)_exceeded",  # OpenAI's code, Z.ai's
    r"exceed_context_size_error",  # llama.cpp's type
    r"model_max_prompt_tokens_exceeded|tokens_limit_reached",  # the codes of GitHub Copilot, GitHub Models
    r"ContextWindowExceeded",  # litellm
    r"maximum (?:context|prompt|model|sequence) length",  # OpenAI, vLLM, DeepSeek, OpenRouter, xAI, Mistral
    r"context length (?:is|of) only \d+",  # vLLM, counting the tokens asked for; LM Studio
    # vLLM, of what it worked out itself to be left for the reply. Nobody asks for so few; for 0 or -1, some do.
    r"max_tokens must be at least 1, got -(?!1\b)\d+",
    r"longer than the model'?s context length",  # SGLang
    r"input length .{0,40}exceeds the maximum allowed length",  # SGLang
    r"exceed(?:s|ed)? (?:the |max |this )?(?:model'?s )?(?:available |maximum )?context (?:size|length|window|limit)",
    r"context (?:size|length|window) (?:has been exceeded|exceeded|exceeds limit)",  # llama.cpp, Ollama, MiniMax
    r"exceeds the maximum number of tokens allowed",  # Gemini
    r"(?:prompt|input)(?: \([^)]*\))? (?:is )?too long",  # Anthropic, Bedrock, Fireworks, Ollama, vLLM with pictures
    r"`?inputs`? tokens \+ `?max_new_tokens`?",  # TGI, Together
    r"`?inputs`? must have less than \d+ tokens",  # TGI
    r"input tokens exceed the configured limit",  # OpenAI
    r"reduce the length of (?:the|your) (?:messages|prompt|input)",  # OpenAI, Groq, Cerebras
    r"too many tokens: |too many input tokens",  # Cohere, Bedrock
    r"range of input length should be",  # DashScope
    r"exceeded model token limit",  # Moonshot
    r"prompt exceeds (?:the )?max(?:imum)? length|prompt exceeds the length limit",  # Z.ai
    r"prompt length .{0,40}exceeds? (?:the )?maximum input length|should not exceed max_num_tokens",  # TensorRT-LLM
    r"default_max_tokens`? \(-?\d+\) (?:should|must) be greater than 0",  # TensorRT-LLM, of what is left
    r"deduced max_tokens -\d+ is less than 0",  # the same, before
    r"ResponseType\.INPUT_LENGTH_ERROR",  # LMDeploy
    r"cannot exceed the total tokens limit",  # watsonx
    r"when (?:the )?context (?:the )?overflows|context overflow|greater than the context length",  # LM Studio
)
_OVERFLOW = re.compile("|".join(_OVERFLOW_WORDINGS), re.IGNORECASE)

_BROKEN_WIRE = (httpx.TransportError, aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ConnectionError)
# The aiohttp transport reports refused and closed connections as `ConnectTimeout`; these three are true time-outs.
_TRUE_TIMEOUTS = (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout)


# An account that is used up, told with the 429 of a busy server: OpenAI's word, Moonshot's, and Z.ai's number.
_QUOTA_CODES = frozenset({"insufficient_quota", "exceeded_current_quota_error", "1113"})


class RefusalReplyError(EmptyReplyError):
    """A server answered 200, and the status that it should have answered with stands in its answer.

    Attributes:
        status: That status.
    """

    def __init__(self, problem: str, hint: str, status: int) -> None:
        super().__init__(problem, hint)
        self.status = status

    def __reduce__(self) -> tuple[type[ArtkitError], tuple[str, str, int]]:
        return type(self), (self.problem, self.hint, self.status)


class OverflowReplyError(EmptyReplyError):
    """A server answered 200 to say that the conversation outgrew the model's context."""


def status_code(error: BaseException) -> int | None:
    """Return the HTTP status that `error` reports, or None where no answer came."""
    if isinstance(error, RefusalReplyError):
        return error.status
    if isinstance(error, openai.APIStatusError):
        return error.status_code
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code
    if isinstance(error, aiohttp.ClientResponseError):
        return error.status
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
        # litellm's error for what it does not know, such as a 403, is no APIStatusError.
        status = getattr(error, "status_code", None)
        return status if isinstance(status, int) else None
    return None


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed when it is sent again.

    Time-outs, broken connections, empty or unreadable replies, 408, 409, 425, 429 and every 5xx; what a server says in
    `x-should-retry` holds. An exhausted quota is a 429 that no waiting mends, and a context overflow comes back as it
    was.
    """
    if isinstance(error, openai.APIResponseValidationError):
        return True  # it reports the status of the answer that could not be read, a 200
    if isinstance(error, OverflowReplyError):
        return False
    status = status_code(error)
    if status is not None:
        if _is_quota_exhausted(error) or is_context_overflow(error):
            return False
        advice = _headers(error).get("x-should-retry")
        if advice in ("true", "false"):
            return advice == "true"
        return status in _RETRYABLE_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, (openai.APIConnectionError, EmptyReplyError, TimeoutError, *_BROKEN_WIRE))


def is_context_overflow(error: BaseException) -> bool:
    """Whether the server refused the request because the conversation outgrew the model's context.

    Decided by the words of the refusal (servers share no code for it): those of OpenAI, vLLM, SGLang, TGI, llama.cpp,
    Anthropic, Gemini and their relatives. Any other refusal is not an overflow.
    """
    if isinstance(error, EmptyReplyError):
        return isinstance(error, OverflowReplyError)
    return status_code(error) in _OVERFLOW_STATUSES and _OVERFLOW.search(_refusal_text(error)) is not None


def says_overflow(reason: object) -> bool:
    """Whether `reason`, a server's word or object for what is wrong, is about an outgrown context."""
    return _OVERFLOW.search("\n".join(_reasons(reason))) is not None


def reported_status(reason: object) -> int | None:
    """Return the HTTP status in `reason`, a server's object for what is wrong; None where there is none."""
    if not isinstance(reason, Mapping):
        return None
    values = (str(reason.get(name)) for name in ("code", "status", "status_code"))
    statuses = (int(value) for value in values if re.fullmatch(r"[45]\d\d", value, re.ASCII))
    return next(statuses, None)


def is_connection_failure(error: BaseException) -> bool:
    """Whether no answer came because the server could not be reached or hung up."""
    if isinstance(error, openai.APIConnectionError):
        return not isinstance(error.__cause__, _TRUE_TIMEOUTS)
    return isinstance(error, _BROKEN_WIRE) and not isinstance(error, _TRUE_TIMEOUTS)


def is_fatal(error: BaseException) -> bool:
    """Whether every further request will be refused too: a wrong key, no access, an unknown model, no credit left."""
    return status_code(error) in _FATAL_STATUSES or _is_quota_exhausted(error)


def retry_after_s(error: BaseException, *, now_s: float | None = None) -> float | None:
    """Return how long the server asks to wait, in seconds from now, or None where it does not say.

    Args:
        error: The refusal.
        now_s: The present as seconds since the epoch, for a `Retry-After` that is a date; None reads the clock.
    """
    headers = _headers(error)
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (milliseconds := _number(headers.get(name))) is not None:
            return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return max(0.0, seconds)
    try:
        until_s = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return None
    return max(0.0, until_s - (time.time() if now_s is None else now_s))


def _headers(error: BaseException) -> Mapping[str, str]:
    # litellm puts a made-up response into its errors, and the server's headers beside it.
    if isinstance(headers := getattr(error, "litellm_response_headers", None), Mapping):
        return httpx.Headers(dict(headers))
    if isinstance(error, openai.APIStatusError | httpx.HTTPStatusError):
        return error.response.headers
    if isinstance(error, aiohttp.ClientResponseError) and error.headers is not None:
        return error.headers
    return {}


def _refusal_text(error: BaseException) -> str:
    """Return what the server says is wrong, without what it repeats of the request (a prompt may say anything)."""
    if not isinstance(error, openai.APIError):
        return str(error)
    return "\n".join(_reasons(error.body or error.message))


def _reasons(reason: object) -> Iterator[str]:
    """Yield the texts of a refusal; gateways put that of the server behind them into it, FastAPI a list of them."""
    if isinstance(reason, str):
        yield reason
    elif isinstance(reason, Mapping):
        for name in ("code", "type", "message", "msg", "detail", "error", "metadata", "raw"):
            yield from _reasons(reason.get(name))
    elif isinstance(reason, Sequence):
        for part in reason:
            yield from _reasons(part)


def _is_quota_exhausted(error: BaseException) -> bool:
    return isinstance(error, openai.APIError) and not _QUOTA_CODES.isdisjoint({str(error.code), str(error.type)})


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
