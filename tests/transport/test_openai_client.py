"""Sampling over HTTP: the model's own OpenAI client, on the aiohttp transport."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import art
import openai
import pytest

from artkit.bridge import make_trainable_model, with_recorded_client
from artkit.errors import EmptyReplyError
from artkit.testing import ChatServer, DiaryBackend, Reply
from artkit.transport import OpenAISamplingClient, SamplingClient, SamplingRequest, is_retryable

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


async def trainable(tmp_path: Path, server: ChatServer) -> art.TrainableModel[Any, Any]:
    model = make_trainable_model(
        name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
    )
    await model.register(DiaryBackend(server))
    return model


async def test_what_is_left_open_is_not_sent() -> None:
    """The server's own default holds, and servers that do not know a field do not see it."""
    async with ChatServer(["ok"]) as server:
        client = OpenAISamplingClient(server.model())
        await client.complete(SamplingRequest(model="m", messages=MESSAGES))
        await client.close()

    assert server.requests == [{"model": "m", "messages": MESSAGES, "temperature": 1.0, "top_p": 1.0}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "x", "choi',
        b'{"id": "x", "object": "chat.completion", "choices": [{"message": {"content": "\xe9t\xe9"}}]}',
        b'{"id": "\xff\xfe',
        b"[" * 20_000,
        b'{"choices": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"choices": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
        b'{"choices": [], "own": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
async def test_a_body_that_cannot_be_read_is_no_completion(body: bytes) -> None:
    """A proxy that cut it short, or garbled it, may hand over the next one whole."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = OpenAISamplingClient(
            art.Model(name="m", project="p", inference_api_key="k", inference_base_url=f"http://127.0.0.1:{port}/v1")
        )
        with pytest.raises(EmptyReplyError, match="the server's answer is no chat completion") as caught:
            await client.complete(SamplingRequest(model="m", messages=MESSAGES))
        await client.close()

    assert is_retryable(caught.value)


async def test_what_cannot_be_sent_is_not_blamed_on_the_server() -> None:
    """It was never asked, and would be asked again in vain."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    async with ChatServer(["ok"]) as server:
        client = OpenAISamplingClient(server.model())
        with pytest.raises(RecursionError):
            await client.complete(SamplingRequest(model="m", messages=[{"role": "user", "content": deep}]))
        await client.close()

    assert server.requests == []


async def test_everything_that_is_set_is_sent() -> None:
    """A setting that does not arrive is worse than none."""
    request = SamplingRequest(
        model="m",
        messages=MESSAGES,
        tools=[TOOL],
        temperature=0.5,
        top_p=0.9,
        max_completion_tokens=7,
        stop=("a", "b"),
        seed=3,
        logprobs=True,
        extra_body={"min_p": 0.1},
    )
    async with ChatServer(["ok"]) as server:
        client = OpenAISamplingClient(server.model())
        await client.complete(request)
        await client.close()

    assert server.requests == [
        {
            "model": "m",
            "messages": MESSAGES,
            "tools": [TOOL],
            "temperature": 0.5,
            "top_p": 0.9,
            "max_completion_tokens": 7,
            "stop": ["a", "b"],
            "seed": 3,
            "logprobs": True,
            "min_p": 0.1,
        }
    ]


async def test_whoever_wraps_the_client_sees_what_is_sent() -> None:
    """Tracers and recorders read the arguments of `create`; going through them there must not wear them out."""
    seen: list[list[list[dict[str, Any]]]] = []
    async with ChatServer(["ok"]) as server:
        model = server.model()
        watched = with_recorded_client(
            model, lambda sent, _: seen.append([list(sent["messages"]), list(sent["tools"])])
        )
        client = OpenAISamplingClient(watched)
        await client.complete(SamplingRequest(model="m", messages=MESSAGES, tools=[TOOL]))
        await client.close()

    assert (seen, server.requests[0]["messages"], server.requests[0]["tools"]) == (
        [[MESSAGES, [TOOL]]],
        MESSAGES,
        [TOOL],
    )


async def test_messages_are_sent_as_they_are_whatever_is_in_them() -> None:
    """What a server of one's own understands beyond OpenAI's words is not lost on the way."""
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "far", "own": {"deep": [None]}}]},
    ]
    async with ChatServer(["ok"]) as server:
        client = OpenAISamplingClient(server.model())
        await client.complete(SamplingRequest(model="m", messages=messages))
        await client.close()

    assert server.requests[0]["messages"] == messages


async def test_the_openai_client_does_not_retry_on_its_own() -> None:
    """One owner of retries: two would multiply."""
    async with ChatServer([Reply(status=503, headers={"Retry-After": "0"})] * 3) as server:
        client = OpenAISamplingClient(server.model())
        with pytest.raises(openai.InternalServerError):
            await client.complete(SamplingRequest(model="m", messages=MESSAGES))
        await client.close()

    assert len(server.requests) == 1


async def test_the_requests_deadline_is_a_plain_timeout(tmp_path: Path) -> None:
    """ART 0.5.23 takes a time-out of the OpenAI client for the loss of the server, and the run would stop."""
    async with ChatServer([Reply("late", delay_s=30.0)]) as server:
        model = await trainable(tmp_path, server)
        if hasattr(model, "_inference_connection_errors_are_fatal"):
            model._inference_connection_errors_are_fatal = True
        client = OpenAISamplingClient(model)
        with pytest.raises(TimeoutError) as caught:
            await client.complete(SamplingRequest(model="m", messages=MESSAGES, timeout_s=0.05))
        await client.close()

    assert type(caught.value) is TimeoutError


async def test_art_s_token_metadata_is_kept(tmp_path: Path) -> None:
    """ART 0.5.23 trains on no reply without it."""
    async with ChatServer(["ok"]) as server:
        model = await trainable(tmp_path, server)
        client = OpenAISamplingClient(model)
        completion = await client.complete(SamplingRequest(model="m", messages=MESSAGES, logprobs=True))
        await client.close()
    extra = completion.choices[0].model_extra or {}
    asks_for_ids = "return_token_ids" in server.requests[0]

    assert (extra.get("token_ids"), "prompt_token_ids" in extra) == (
        ([111, 107], True) if asks_for_ids else (None, False)
    )


async def test_art_s_cost_accounting_is_kept(tmp_path: Path) -> None:
    """A run's cost must not lack what the rollouts cost."""
    async with ChatServer(["ok"]) as server:
        model = await trainable(tmp_path, server)
        model.set_cost_calculator(
            lambda prompt, completion, context: {f"costs/{context}/tokens": float(completion or 0)}
        )
        client = OpenAISamplingClient(model)
        with model.metrics_builder("train").activate_context():
            await client.complete(SamplingRequest(model="m", messages=MESSAGES))
        await client.close()
    costs = await model.metrics_builder("train").flush()

    assert costs["costs/train/tokens"] == 2.0


async def test_hundreds_of_requests_run_side_by_side() -> None:
    """A pool of a hundred connections down here would be a limit that nobody set."""
    requests = 300
    arrived = asyncio.Event()
    waiting = 0

    async def answer(body: dict[str, Any]) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == requests:
            arrived.set()
        await arrived.wait()
        return "ok"

    async with ChatServer(answer) as server:
        client = OpenAISamplingClient(server.model())
        async with asyncio.TaskGroup() as group:
            for _ in range(requests):
                group.create_task(client.complete(SamplingRequest(model="m", messages=MESSAGES)))
        await client.close()

    assert server.max_in_flight == requests


async def test_closing_twice_is_harmless_and_leaves_the_models_own_client_open() -> None:
    """The user may go on sampling through the model."""
    async with ChatServer(["one", "two"]) as server:
        model = server.model()
        client = OpenAISamplingClient(model)
        await client.complete(SamplingRequest(model="m", messages=MESSAGES))
        await client.close()
        await client.close()
        own = model.openai_client()
        reply = await own.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
        await own.close()

    assert reply.choices[0].message.content == "two"


def test_it_is_a_sampling_client() -> None:
    """The one seam for sampling."""
    model = art.Model[Any, Any](
        name="m", project="p", inference_api_key="k", inference_base_url="http://127.0.0.1:9/v1"
    )

    assert isinstance(OpenAISamplingClient(model), SamplingClient)
