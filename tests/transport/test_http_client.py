"""The HTTP client under the OpenAI client."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from aiohttp import web
from openai.types.chat import ChatCompletion

from artkit.transport.http_client import SamplingHttpClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
MESSAGES: Any = [{"role": "user", "content": "go"}]
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LOGPROBS = {"content": [{"token": "token_id:3", "logprob": -1, "bytes": [97], "top_logprobs": []}], "refusal": None}


def body(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    """A completion of one choice."""
    said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi", **message}, **choice}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [said], "usage": usage}


BODIES = {
    "plain": body({}),
    "logprobs": body({}, logprobs=LOGPROBS, token_ids=[3], prompt_token_ids=[1, 2]),
    "call": body({"content": None, "tool_calls": [CALL]}, finish_reason="tool_calls"),
    "call-of-no-type": body({"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]}),
    "own-fields": {**body({"reasoning_content": "hm", "own": {"deep": [None, 1.5]}}, stop_reason=7), "kv": {"a": 1}},
    "unknown-reason": body({}, finish_reason="abort"),
    "null-choices": {**body({}), "choices": None},
    "null-choice": {**body({}), "choices": [None]},
    "error": {"error": {"message": "no", "code": 500}},
    "bare": {},
}


@asynccontextmanager
async def serving(answer: Answer, http_client: httpx.AsyncClient | None = None) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a server that answers every request in this way."""
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    used = SamplingHttpClient(httpx.Limits()) if http_client is None else http_client
    try:
        async with openai.AsyncOpenAI(base_url=url, api_key="k", http_client=used, max_retries=0) as client:
            yield client
    finally:
        await runner.cleanup()


async def ask(client: openai.AsyncOpenAI) -> Any:
    return await client.chat.completions.create(model="m", messages=MESSAGES)


@pytest.mark.parametrize("name", BODIES)
async def test_a_completion_is_what_the_openai_client_makes_of_it(name: str) -> None:
    """Whatever the server sends: an object of another shape would break whoever reads it, ART first."""

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.json_response(BODIES[name])

    async with serving(answer) as client:
        found = await ask(client)
    async with serving(answer, openai.DefaultAioHttpClient()) as client:
        expected = await ask(client)

    assert found == expected
    assert (type(found), found.model_dump(), found.model_extra) == (
        ChatCompletion,
        expected.model_dump(),
        expected.model_extra,
    )


async def test_a_request_is_what_it_is_with_the_openai_clients_own() -> None:
    """Headers that gateways look at, compression, and the body."""
    sent = []

    async def answer(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        sent.append(({name: headers[name] for name in sorted(headers) if name != "host"}, await request.text()))
        return web.json_response(BODIES["plain"])

    for http_client in (None, openai.DefaultAioHttpClient(timeout=None)):
        async with serving(answer, http_client) as client:
            await ask(client.with_options(timeout=None))

    own, expected = sent
    assert own == expected


async def test_a_compressed_answer_is_read() -> None:
    """Proxies compress what is large."""

    async def answer(request: web.Request) -> web.Response:
        assert "gzip" in request.headers["Accept-Encoding"]
        packed = gzip.compress(json.dumps(BODIES["plain"]).encode())
        return web.Response(body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"})

    async with serving(answer) as client:
        found = await ask(client)

    assert found.choices[0].message.content == "hi"


async def test_a_redirect_is_followed() -> None:
    """As by the OpenAI client's own."""

    async def answer(request: web.Request) -> web.Response:
        if request.path != "/v2":
            return web.Response(status=307, headers={"Location": "/v2"})
        return web.json_response(BODIES["plain"])

    async with serving(answer) as client:
        found = await ask(client)

    assert found.choices[0].message.content == "hi"


async def test_whoever_watches_httpx_sees_each_request_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """ART 0.5.23 captures trajectories in `httpx.AsyncClient.send`."""
    seen = []
    send = httpx.AsyncClient.send

    async def watched(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        response = await send(self, request, **options)
        seen.append((json.loads(request.content)["model"], json.loads(response.content)["id"]))
        return response

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.json_response(BODIES["plain"])

    monkeypatch.setattr(httpx.AsyncClient, "send", watched)
    async with serving(answer) as client:
        await ask(client)

    assert seen == [("m", "x")]


async def test_a_cookie_comes_back() -> None:
    """A load balancer keeps a client on one server by it."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.cookies.get("server"))
        response = web.json_response(BODIES["plain"])
        response.set_cookie("server", "7")
        return response

    async with serving(answer) as client:
        await ask(client)
        await ask(client)

    assert seen == [None, "7"]
