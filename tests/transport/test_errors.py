"""What an exception of the transport means."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import httpx
import openai
import pytest
from multidict import CIMultiDict

from artkit.testing import ChatServer, Reply
from artkit.transport import (
    EmptyReplyError,
    is_connection_failure,
    is_context_overflow,
    is_fatal,
    is_retryable,
    retry_after_s,
    status_code,
)

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def refusal(status: int, error: Any = "no", *, headers: dict[str, str] | None = None) -> openai.APIStatusError:
    """The error that the OpenAI client raises for such an answer."""
    body = {"error": error if isinstance(error, dict) else {"message": error}}
    response = httpx.Response(status, json=body, headers=headers, request=REQUEST)
    client = openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1")
    with client:
        return client._make_status_error_from_response(response)


def connection_error(cause: Exception) -> openai.APIConnectionError:
    kind = openai.APITimeoutError if isinstance(cause, httpx.TimeoutException) else openai.APIConnectionError
    error = kind(request=REQUEST)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_busy_or_broken_server_is_asked_again(status: int) -> None:
    """Each of these may go away by itself."""
    error = refusal(status)

    assert (is_retryable(error), is_fatal(error)) == (True, False)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_server_that_will_refuse_every_request_is_fatal(status: int) -> None:
    """A wrong key or an unknown model does not heal; going on would lose every rollout one by one."""
    error = refusal(status)

    assert (is_retryable(error), is_fatal(error)) == (False, True)


@pytest.mark.parametrize(("status", "verdict"), [(429, (True, False)), (403, (False, True)), (503, (True, False))])
async def test_an_error_of_litellm_means_what_the_servers_answer_meant(status: int, verdict: tuple[bool, bool]) -> None:
    """It maps them to classes of its own: a 403 is no status error there, and a Retry-After stands beside the response."""
    import litellm

    async with ChatServer([Reply(status=status, headers={"Retry-After": "7"})]) as server:
        with pytest.raises(openai.APIError) as caught:
            await litellm.acompletion(
                model="openai/gpt-4.1", messages=[{"role": "user", "content": "q"}], max_retries=0,
                api_base=server.base_url, api_key=server.api_key,
            )  # fmt: skip

    assert status_code(caught.value) == status
    assert (is_retryable(caught.value), is_fatal(caught.value)) == verdict
    assert retry_after_s(caught.value) == 7.0


@pytest.mark.parametrize("status", [400, 405, 413, 422])
def test_a_refused_request_is_neither_repeated_nor_fatal(status: int) -> None:
    """The next rollout's request is another one."""
    error = refusal(status)

    assert (is_retryable(error), is_fatal(error)) == (False, False)


@pytest.mark.parametrize(
    "body",
    [
        {"message": "You exceeded your current quota", "code": "insufficient_quota"},
        {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": None},
        {"message": "please check your plan and billing details", "type": "exceeded_current_quota_error"},
        {"message": "Insufficient balance or no resource package. Please recharge.", "code": "1113"},
    ],
    ids=["OpenAI", "a proxy", "Moonshot", "Z.ai"],
)
def test_an_exhausted_quota_is_fatal_although_it_is_a_429(body: dict[str, Any]) -> None:
    """Waiting does not fill an account."""
    error = refusal(429, body)

    assert (is_retryable(error), is_fatal(error)) == (False, True)


@pytest.mark.parametrize(("advice", "status", "expected"), [("true", 400, True), ("false", 503, False)])
def test_the_servers_own_advice_on_retrying_holds(advice: str, status: int, expected: bool) -> None:
    """The server knows why it refused."""
    assert is_retryable(refusal(status, headers={"x-should-retry": advice})) is expected


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        EmptyReplyError("empty", "retry"),
        connection_error(httpx.ConnectError("refused")),
        connection_error(httpx.ReadTimeout("slow")),
        httpx.ReadError("cut off"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_answer_is_asked_for_again(error: Exception) -> None:
    """No answer says nothing about the request."""
    assert is_retryable(error)


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("x"), asyncio.CancelledError(), KeyboardInterrupt()])
def test_what_is_not_of_the_transport_is_not_retried(error: BaseException) -> None:
    """A bug stays a bug at the second try, and a cancellation is an order."""
    assert (is_retryable(error), is_connection_failure(error), is_fatal(error)) == (False, False, False)


@pytest.mark.parametrize(
    "error",
    [
        connection_error(httpx.ConnectError("refused")),
        # What the aiohttp transport makes of a refused connection.
        connection_error(httpx.ConnectTimeout("refused")),
        httpx.ConnectError("refused"),
        aiohttp.ServerDisconnectedError(),
        ConnectionRefusedError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_server_out_of_reach_is_a_connection_failure(error: Exception) -> None:
    """Many in a row mean that the server is gone."""
    assert is_connection_failure(error)


@pytest.mark.parametrize("error", [connection_error(httpx.ReadTimeout("slow")), TimeoutError(), refusal(503)])
def test_a_slow_or_refusing_server_is_in_reach(error: Exception) -> None:
    """A server that is busy must not be taken for one that is gone."""
    assert not is_connection_failure(error)


OVERFLOWS = {
    "openai": (400, {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 8195 tokens.", "code": "context_length_exceeded"}),
    "openai responses": (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    "vllm": (400, "This model's maximum context length is 8192 tokens. However, you requested 8195 tokens (7995 in the messages, 200 in the completion)."),
    "vllm max_tokens": (400, "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has 500 input tokens"),
    "vllm decoder": (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    "vllm input": (400, "You passed 8193 input tokens and requested 1 output tokens. However, the model's context length is only 8192 tokens"),
    "vllm negative": (400, {"message": "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)", "type": "BadRequestError", "param": "max_tokens", "code": 400}),
    "vllm length": (400, "Input length (11680) exceeds model's maximum context length (4096)."),
    "sglang": (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    "sglang total": (400, "Requested token count exceeds the model's maximum context length of 8192 tokens."),
    "tgi": (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`"),
    "llama.cpp": (400, {"message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "code": 400}),
    "llama-cpp-python": (400, "Requested tokens (5000) exceed context window of 2048"),
    "anthropic": (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "anthropic max_tokens": (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    "bedrock": (400, "Input is too long for requested model."),
    "gemini": (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
    "groq": (400, "Please reduce the length of the messages or completion."),
    "mistral": (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    "xai": (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    "litellm": (400, "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException"),
    "lm studio": (400, "Trying to keep the first 9000 tokens when the context the overflows."),
    "lm studio count": (400, "The number of tokens to keep from the initial prompt is greater than the context length."),
    "lm studio loaded": (400, "The model is loaded with context length of only 4096 tokens, which is not enough."),
    "lm studio a": (400, "Trying to keep the first 6547 tokens when context overflows. However, the model is loaded with a context length of only 4096 tokens"),
    "lm studio the": (400, "Trying to keep the first 111490 tokens when context the overflows. Try to load the model with a larger context length"),
    "openai limit": (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
    "azure": (400, {"message": "This model's maximum context length is 16385 tokens, however you requested 16500 tokens (500 in your prompt; 16000 for the completion).", "code": "context_length_exceeded", "param": "messages"}),
    "vllm pictures": (400, "The prompt (total length 9000) is too long to fit into the model (context length 8192)."),
    "sglang allowed": (400, "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate."),
    "tgi input": (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
    "together": (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and 512 `max_new_tokens`"),
    "fireworks": (400, "The prompt is too long: 140000, model maximum context length: 131071"),
    "llama.cpp counted": (400, "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"),
    "llama.cpp old": (500, "Context size has been exceeded."),
    "anthropic by litellm": (400, "litellm.BadRequestError: AnthropicException - prompt is too long: 205000 tokens > 200000 maximum"),
    "bedrock count": (400, "Too many input tokens. Max input tokens: 8192, request input token count: 9000"),
    "moonshot": (400, "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)"),
    "minimax": (400, "invalid params, context window exceeds limit"),
    "z.ai": (400, {"message": "Prompt exceeds max length", "code": "1261"}),
    "copilot": (400, {"message": "prompt token count of 70000 exceeds the limit of 64000", "code": "model_max_prompt_tokens_exceeded"}),
    "github models": (413, {"message": "Request body too large for gpt-4o model. Max size: 8000 tokens.", "code": "tokens_limit_reached"}),
    "tensorrt-llm": (400, "Prompt length (5000) exceeds maximum input length (4096). Set log level to info"),
    "tensorrt-llm left": (400, "`default_max_tokens` (-5) should be greater than 0, `default_max_tokens` (-5) = max_seq_len (4096) - `splited_prompt_len` (4101)"),
    "tensorrt-llm left now": (400, "`default_max_tokens` (0) must be greater than 0, `default_max_tokens` (0) = max_seq_len (4096) - `splited_prompt_len` (4096)"),
    "tensorrt-llm deduced": (400, "Deduced max_tokens -5 is less than 0, becauseprompt length 4101 plus query length 0 is larger than max_seq_len 4096"),
    "lmdeploy": (400, "internal error happened, status code ResponseType.INPUT_LENGTH_ERROR"),
    "watsonx": (400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
    "ollama": (400, "prompt too long; exceeded max context length by 12 tokens"),
    "gateway": (400, {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error":{"message":"This endpoint\'s maximum context length is 8192 tokens."}}'}}),
    "in a list": (422, {"message": "refused", "detail": [{"loc": ["body"], "msg": "maximum context length is 8192 tokens", "type": "value_error"}]}),
    "nested": (400, {"message": "upstream failed", "error": {"message": "prompt is too long"}}),
}  # fmt: skip


@pytest.mark.parametrize(("status", "error"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_every_servers_wording_of_an_overflow_is_understood(status: int, error: Any) -> None:
    """Taken for a crash, it would throw the turns before it away; retried, it comes back as it was."""
    failure = refusal(status, error)

    assert (is_context_overflow(failure), is_retryable(failure), is_fatal(failure)) == (True, False, False)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "Invalid value for 'temperature': must be at most 2"),
        (400, "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576."),
        (400, {"message": "unknown tool", "code": "invalid_value"}),
        (
            400,
            "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000.",
        ),
        (400, "Expected a string with maximum length 64, but got a string with length 70 instead."),
        (400, "This model does not support tools."),
        (400, "An assistant message with 'tool_calls' must be followed by tool messages"),
        (413, "Request too large for model in organization on tokens per minute (TPM): Limit 6000, Requested 9000"),
        (400, {"message": "flagged", "metadata": {"flagged_input": "the maximum context length is"}}),
        (400, "max_tokens must be at least 1, got 0."),
        (400, {"message": "max_tokens must be at least 1, got -1. (parameter=max_tokens, value=-1)"}),
        (400, "`max_tokens` (-5) must be greater than 0"),
        (400, "min_tokens must be greater than or equal to 0, got -7584."),
        (400, "Model is not loaded: load it with a context length of your choice."),
        (422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be greater than 0", "input": -223}]}),
        (422, {"detail": [{"msg": "Field required", "ctx": {"error": "context overflow"}}]}),
        (429, "Request too large: please reduce the length of the messages (tokens per minute)"),
        (401, "maximum context length"),
    ],
)
def test_any_other_refusal_is_no_overflow(status: int, error: Any) -> None:
    """An episode must not end politely over a mistake in the request."""
    assert not is_context_overflow(refusal(status, error))


def test_what_the_server_repeats_of_the_request_is_not_its_reason() -> None:
    """A user may well talk about the maximum context length."""
    response = httpx.Response(
        422,
        json={"detail": [{"loc": ["body"], "msg": "field required", "input": "what is the maximum context length?"}]},
        request=REQUEST,
    )
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1") as client:
        error = client._make_status_error_from_response(response)

    assert not is_context_overflow(error)


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [{"loc": ["body"], "msg": "The prompt is too long", "input": "hello"}]},
        [{"error": {"message": "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."}}],
    ],
    ids=["FastAPI", "Gemini"],
)
def test_a_refusal_may_be_a_list(body: Any) -> None:
    """FastAPI gives one of all that is wrong, Gemini one around everything."""
    response = httpx.Response(422, json=body, request=REQUEST)
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1") as client:
        error = client._make_status_error_from_response(response)

    assert is_context_overflow(error)


@pytest.mark.parametrize("error", [TimeoutError("maximum context length"), ValueError("maximum context length")])
def test_an_overflow_is_something_a_server_says(error: Exception) -> None:
    """Only a refusal can be one."""
    assert not is_context_overflow(error)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-3"}, None),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
    ],
)
def test_the_wait_that_the_server_asks_for_is_read(headers: dict[str, str], expected: float | None) -> None:
    """Seconds, dates and milliseconds are in use; nonsense is no answer."""
    assert retry_after_s(refusal(429, headers=headers), now_s=60.0) == expected


def test_other_http_libraries_are_understood_too() -> None:
    """A judge or a tool may use them."""
    response = httpx.Response(429, headers={"Retry-After": "2"}, request=REQUEST)
    by_httpx = httpx.HTTPStatusError("429", request=REQUEST, response=response)
    info = aiohttp.RequestInfo(url=None, method="GET", headers=None, real_url=None)  # type: ignore[arg-type]
    by_aiohttp = aiohttp.ClientResponseError(info, (), status=503, headers=CIMultiDict({"Retry-After": "3"}))  # type: ignore[arg-type]

    assert [(status_code(e), is_retryable(e), retry_after_s(e)) for e in (by_httpx, by_aiohttp)] == [
        (429, True, 2.0),
        (503, True, 3.0),
    ]


def test_no_answer_has_neither_status_nor_wait() -> None:
    """There is nothing to read them from."""
    error = TimeoutError()

    assert (status_code(error), retry_after_s(error)) == (None, None)


def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    """It reports the status of that answer, which is a 200."""
    error = openai.APIResponseValidationError(httpx.Response(200, request=REQUEST), body=None)

    assert (is_retryable(error), is_fatal(error), is_connection_failure(error)) == (True, False, False)
