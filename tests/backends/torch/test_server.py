"""The endpoint, through ART's own client and through bare HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import art
import openai
import pytest

from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def client(model: Model) -> AsyncIterator[openai.AsyncOpenAI]:
    """ART's client of the model, without retries."""
    async with openai.DefaultAioHttpClient() as http_client:
        yield model.openai_client().with_options(http_client=http_client, max_retries=0)


async def test_a_reply_carries_its_exact_ids_and_logprobs(client: openai.AsyncOpenAI, model: Model) -> None:
    """In the shape that ART and vLLM use, on either ART version."""
    reply = await client.chat.completions.create(
        model=model.get_inference_name(), messages=HELLO, max_completion_tokens=5, logprobs=True, seed=1
    )

    choice = reply.choices[0]
    extra = choice.model_extra or {}
    assert choice.logprobs is not None
    assert [token.token for token in choice.logprobs.content or []] == [f"token_id:{i}" for i in extra["token_ids"]]
    assert (
        bytes(b for token in choice.logprobs.content or [] for b in token.bytes or []).decode()
        == choice.message.content
    )
    assert extra["prompt_token_ids"] == [3, 79, 76, 83, 83, 86, 1, 4]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (8, len(extra["token_ids"]))
    assert (choice.finish_reason, len(extra["token_ids"])) == ("length", 5)


async def test_a_seed_makes_a_reply_repeatable(client: openai.AsyncOpenAI, model: Model) -> None:
    """Alone and among thirty-two others at once."""

    async def ask(seed: int) -> str | None:
        reply = await client.chat.completions.create(
            model=model.get_inference_name(), messages=HELLO, max_tokens=3 + seed % 7, seed=seed
        )
        return reply.choices[0].message.content

    alone = [await ask(seed) for seed in range(3)]
    together = await asyncio.gather(*(ask(seed) for seed in range(32)))

    assert together[:3] == alone
    assert len(set(together)) > 25


async def test_a_seed_below_zero_is_a_seed_of_its_own(client: openai.AsyncOpenAI, model: Model) -> None:
    """The generator that is seeded would take it for its positive twin."""

    async def ask(seed: int) -> str | None:
        completion = await client.chat.completions.create(
            model=model.get_inference_name(), messages=[{"role": "user", "content": "hi"}], max_tokens=24, seed=seed
        )
        return completion.choices[0].message.content

    assert await ask(-7) == await ask(-7)
    assert await ask(-7) != await ask(7)


async def test_a_stop_string_ends_the_reply_and_is_left_out(client: openai.AsyncOpenAI, model: Model) -> None:
    """As OpenAI does; the ids keep what was sampled."""
    whole = await client.chat.completions.create(
        model=model.get_inference_name(), messages=HELLO, max_tokens=20, seed=2
    )
    text = whole.choices[0].message.content or ""

    cut = await client.chat.completions.create(
        model=model.get_inference_name(), messages=HELLO, max_tokens=20, seed=2, stop=[text[3:5], "never"]
    )

    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == (text[: text.index(text[3:5])], "stop")


async def test_the_models_are_listed_by_name_and_by_step(client: openai.AsyncOpenAI) -> None:
    """Every name that can be asked for."""
    assert [entry.id async for entry in await client.models.list()] == ["agent", "agent@0"]


async def test_the_name_alone_is_the_current_step(client: openai.AsyncOpenAI, model: Model) -> None:
    """For whoever does not care which."""
    named = [
        await client.chat.completions.create(model=name, messages=HELLO, max_tokens=9, seed=0)
        for name in ("agent", "agent@0")
    ]

    assert named[0].choices[0].message.content == named[1].choices[0].message.content


async def test_a_prompt_beyond_the_context_window_is_refused_in_vllms_words(
    client: openai.AsyncOpenAI, model: Model
) -> None:
    """Rollouts recognise an overflow by them."""
    with pytest.raises(openai.BadRequestError, match=r"maximum context length is 2048 tokens. However, you requested"):
        await client.chat.completions.create(
            model=model.get_inference_name(), messages=[{"role": "user", "content": "x" * 2048}]
        )


@pytest.mark.parametrize("name", ["someone", "agent@7", "agent@", "@0", "agent@-1"])
async def test_an_unknown_model_is_not_found(client: openai.AsyncOpenAI, name: str) -> None:
    """In OpenAI's shape, naming those there are."""
    with pytest.raises(openai.NotFoundError, match="agent@0") as caught:
        await client.chat.completions.create(model=name, messages=HELLO)

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_a_wrong_key_is_refused(client: openai.AsyncOpenAI, model: Model) -> None:
    """Another user of the machine must not sample, or see which models there are."""
    stranger = client.with_options(api_key="guess")

    with pytest.raises(openai.AuthenticationError, match="API key"):
        await stranger.chat.completions.create(model=model.get_inference_name(), messages=HELLO)
    with pytest.raises(openai.AuthenticationError):
        await stranger.models.list()


async def test_a_key_that_is_no_text_is_a_wrong_key(model: Model) -> None:
    """Whoever tries one is refused like any other, and not told of an error inside."""
    host, _, port = model.inference_base_url.removeprefix("http://").removesuffix("/v1").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()

    assert (host, answer.split(b"\r\n")[0]) == ("127.0.0.1", b"HTTP/1.1 401 Unauthorized")


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"{", 400, "not JSON"),
        (b"[]", 400, "JSON object"),
        (b'{"model": "agent", "messages": []}', 400, "messages"),
    ],
)
async def test_a_malformed_body_is_refused(model: Model, body: bytes, status: int, named: str) -> None:
    """With an answer in OpenAI's shape, not a traceback."""
    headers = {"Authorization": f"Bearer {model.inference_api_key}"}
    url = f"{model.inference_base_url}/chat/completions"
    async with aiohttp.ClientSession(headers=headers) as session, session.post(url, data=body) as answer:
        error = (await answer.json())["error"]

    assert answer.status == status
    assert error["type"] == "invalid_request_error"
    assert named in error["message"]


async def test_an_unknown_route_is_not_found(model: Model) -> None:
    """In OpenAI's shape, too."""
    headers = {"Authorization": f"Bearer {model.inference_api_key}"}
    url = f"{model.inference_base_url}/embeddings"
    async with aiohttp.ClientSession(headers=headers) as session, session.post(url, json={}) as answer:
        assert (answer.status, list(await answer.json())) == (404, ["error"])


async def test_each_run_has_a_key_of_its_own(backend: TorchBackend, model: Model, tmp_path: Path) -> None:
    """Yesterday's key opens nothing today."""
    other = TorchBackend(tmp_path / "other")
    try:
        twin = model.model_copy()
        await other.register(twin)
        _, key = await other._prepare_backend_for_training(twin)
    finally:
        await other.close()

    assert key != model.inference_api_key


async def test_a_client_that_hangs_up_leaves_the_batch(model: Model, backend: TorchBackend, until: Until) -> None:
    """Its tokens would be sampled for nobody."""
    headers = {"Authorization": f"Bearer {model.inference_api_key}"}
    url = f"{model.inference_base_url}/chat/completions"
    async with aiohttp.ClientSession(headers=headers) as session:
        request = asyncio.ensure_future(session.post(url, json={"model": "agent", "messages": HELLO}))
        await until(lambda: bool(backend._worker._pending))
        request.cancel()
        await until(lambda: not backend._worker._pending and not backend._worker._batches)

    with pytest.raises(asyncio.CancelledError):
        await request


async def test_it_answers_while_the_users_loop_is_busy(model: Model) -> None:
    """A synchronous client on the loop's own thread would wait for itself for ever."""
    with openai.OpenAI(base_url=model.inference_base_url, api_key=model.inference_api_key, max_retries=0) as client:
        reply = client.chat.completions.create(model="agent", messages=HELLO, max_tokens=3)

    assert reply.usage is not None
    assert reply.usage.completion_tokens <= 3


def test_it_outlives_an_event_loop(tmp_path: Path, make_model: Callable[[], Model]) -> None:
    """A script may call `asyncio.run` once per phase."""
    backend, model = TorchBackend(tmp_path), make_model()

    async def ask() -> int:
        async with openai.DefaultAioHttpClient() as http_client:
            client = model.openai_client().with_options(http_client=http_client, max_retries=0)
            reply = await client.chat.completions.create(model="agent", messages=HELLO, max_tokens=3)
        return len(reply.choices)

    try:
        asyncio.run(model.register(backend))
        assert [asyncio.run(ask()), asyncio.run(ask())] == [1, 1]
    finally:
        asyncio.run(backend.close())
