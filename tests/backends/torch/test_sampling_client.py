"""Sampling without HTTP: the same answers, the same errors."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import art
import openai
import pytest

from artkit.transport import SamplingClient, SamplingRequest

if TYPE_CHECKING:
    from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
REQUEST = SamplingRequest(
    model="agent@0", messages=[{"role": "user", "content": "hello"}], max_completion_tokens=6, seed=1, logprobs=True
)


@pytest.fixture
def client(backend: TorchBackend, model: Model) -> SamplingClient:
    """The client in this process."""
    return backend.sampling_client(model)


@pytest.fixture
async def over_http(model: Model) -> AsyncIterator[openai.AsyncOpenAI]:
    """ART's client of the same model."""
    async with openai.DefaultAioHttpClient() as http_client:
        yield model.openai_client().with_options(http_client=http_client, max_retries=0)


async def test_a_reply_is_the_one_that_http_would_have_brought(
    client: SamplingClient, over_http: openai.AsyncOpenAI
) -> None:
    """A script may take either way and train on the same choices."""
    direct = await client.complete(REQUEST)
    served = await over_http.chat.completions.create(
        model=REQUEST.model, messages=REQUEST.messages, max_completion_tokens=6, seed=1, logprobs=True
    )

    # ART counts a reply's tokens on choices that came over HTTP.
    served_choice = served.choices[0].model_dump(exclude={"art_completion_tokens"})
    assert direct.choices[0].model_dump() == served_choice
    assert direct.usage == served.usage


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model": "nobody"}, openai.NotFoundError),
        ({"messages": [{"role": "user", "content": "x" * 3000}]}, openai.BadRequestError),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, openai.BadRequestError),
        ({"extra_body": {"n": 99}}, openai.BadRequestError),
        ({"messages": [{"role": "narrator", "content": "x"}]}, openai.BadRequestError),
    ],
)
async def test_an_error_is_the_one_that_http_would_have_raised(
    client: SamplingClient,
    over_http: openai.AsyncOpenAI,
    changes: dict[str, Any],
    error: type[openai.APIStatusError],
) -> None:
    """So that rollouts sort both alike."""
    request = replace(REQUEST, **changes)
    with pytest.raises(error) as direct:
        await client.complete(request)
    with pytest.raises(error) as served:
        await over_http.chat.completions.create(
            model=request.model,
            messages=request.messages,
            tools=request.tools or openai.omit,
            max_completion_tokens=6,
            extra_body=dict(request.extra_body),
        )

    assert str(direct.value) == str(served.value)
    assert (direct.value.status_code, direct.value.code, direct.value.param, direct.value.body) == (
        served.value.status_code,
        served.value.code,
        served.value.param,
        served.value.body,
    )


async def test_the_deadline_holds(client: SamplingClient) -> None:
    """A reply that nobody waits for any more is given up."""
    with pytest.raises(TimeoutError):
        await client.complete(replace(REQUEST, max_completion_tokens=2000, timeout_s=1e-4))


async def test_a_request_without_a_seed_is_not_the_last_one_again(client: SamplingClient) -> None:
    """Members of a group must differ."""
    replies = await asyncio.gather(*(client.complete(replace(REQUEST, seed=None)) for _ in range(8)))

    assert len({reply.choices[0].message.content for reply in replies}) == 8


async def test_requests_in_flight_fail_when_the_backend_closes(client: SamplingClient, backend: TorchBackend) -> None:
    """Nobody waits for ever for a thread that has ended."""
    request = asyncio.ensure_future(client.complete(replace(REQUEST, max_completion_tokens=2000)))
    await asyncio.sleep(0)
    await backend.close()

    with pytest.raises(openai.InternalServerError, match="closed"):
        await request


async def test_closing_the_client_leaves_the_backend_open(client: SamplingClient) -> None:
    """It belongs to one sampling session; the backend outlives it."""
    await client.close()
    await client.close()

    assert (await client.complete(REQUEST)).choices


async def test_the_collector_looks_less_often_while_a_request_is_answered(client: SamplingClient) -> None:
    """Also for whoever samples in a loop of their own."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        asked = asyncio.ensure_future(client.complete(REQUEST))
        await asyncio.sleep(0)
        meanwhile = gc.get_threshold()
        await asked
        afterwards = gc.get_threshold()
    finally:
        gc.set_threshold(*before)

    assert (meanwhile, afterwards) == ((7_000, 10, 10), (700, 10, 10))
