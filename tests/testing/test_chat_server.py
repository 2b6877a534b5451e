"""An OpenAI-compatible server on loopback that answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from artkit.bridge import error_chain
from artkit.errors import ConfigurationError
from artkit.testing import ChatServer, Reply


@asynccontextmanager
async def serving(script: Any, **arguments: Any) -> AsyncIterator[tuple[ChatServer, openai.AsyncOpenAI]]:
    async with (
        ChatServer(script, **arguments) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=0) as client,
    ):
        yield server, client


async def say(client: openai.AsyncOpenAI, text: str = "go", **arguments: Any) -> Any:
    return await client.chat.completions.create(
        **{"model": "m", "messages": [{"role": "user", "content": text}], **arguments}
    )


async def test_replies_come_in_the_order_of_the_script() -> None:
    """A test reads like the conversation it plays."""
    async with serving(["one", Reply("two")]) as (_, client):
        texts = [(await say(client)).choices[0].message.content for _ in range(2)]

    assert texts == ["one", "two"]


async def test_a_function_answers_what_was_asked() -> None:
    """Rollouts side by side ask in no fixed order."""

    async def answer(body: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return str(body["messages"][-1]["content"]).upper()

    async with serving(answer) as (_, client):
        replies = await asyncio.gather(*(say(client, text) for text in "ab"))

    assert [reply.choices[0].message.content for reply in replies] == ["A", "B"]


async def test_a_mapping_answers_by_the_last_message() -> None:
    """An empty reply is an answer too."""
    async with serving({"2+2": "4", "hush": ""}) as (_, client):
        replies = [(await say(client, text)).choices[0].message.content for text in ("2+2", "hush")]

    assert replies == ["4", None]


@pytest.mark.parametrize("script", [["one"], {"go": "one"}])
async def test_a_request_that_the_script_does_not_know_is_refused(script: Any) -> None:
    """A made-up answer would let a wrong test pass; 400 is not retried, so the test ends at once."""
    async with serving(script) as (_, client):
        await say(client)
        with pytest.raises(openai.BadRequestError, match="script has"):
            await say(client, "more")


async def test_requests_are_kept_as_they_came() -> None:
    """What was sent is what a test looks at."""
    async with serving(["ok"]) as (server, client):
        await say(client, temperature=0.5)

    assert server.requests == [{"model": "m", "messages": [{"role": "user", "content": "go"}], "temperature": 0.5}]


async def test_the_most_requests_at_once_are_counted() -> None:
    """A limit on concurrency can be tested."""
    together = asyncio.Barrier(3)

    async def answer(body: dict[str, Any]) -> str:
        await together.wait()
        return "ok"

    async with serving(answer) as (server, client):
        await asyncio.gather(*(say(client) for _ in range(3)))

    assert server.max_in_flight == 3


async def test_tool_calls_carry_their_arguments_and_unique_ids() -> None:
    """Raw text stays raw: a model's arguments need not be JSON."""
    script = [Reply(tool_calls=[("look", {"at": 1}), ("go", "{broken")]), Reply(tool_calls=[("look", {})])]
    async with serving(script) as (_, client):
        first, second = await say(client), await say(client)
    calls = first.choices[0].message.tool_calls + second.choices[0].message.tool_calls

    assert [(call.function.name, call.function.arguments) for call in calls] == [
        ("look", '{"at": 1}'),
        ("go", "{broken"),
        ("look", "{}"),
    ]
    assert (len({call.id for call in calls}), first.choices[0].finish_reason) == (3, "tool_calls")


async def test_logprobs_and_token_ids_are_sent_when_they_are_asked_for() -> None:
    """A rollout that forgets to ask must fail here as it would in earnest."""
    async with serving(["ab", "ab"]) as (_, client):
        plain = await say(client)
        asked = await say(client, logprobs=True, extra_body={"return_token_ids": True})
    choice = asked.choices[0]

    assert (plain.choices[0].logprobs, plain.choices[0].model_extra) == (None, {})
    assert [entry.token for entry in choice.logprobs.content] == ["token_id:97", "token_id:98"]
    assert all(entry.logprob <= 0 for entry in choice.logprobs.content)
    assert bytes(entry.bytes[0] for entry in choice.logprobs.content) == b"ab"
    assert (choice.token_ids, asked.usage.completion_tokens) == ([97, 98], 2)
    assert len(asked.prompt_token_ids) == asked.usage.prompt_tokens


async def test_logprobs_and_token_ids_can_be_scripted() -> None:
    """For what depends on their values."""
    async with serving([Reply("x", token_ids=[5, 6], logprobs=[-1.0, -2.0], prompt_token_ids=[1])]) as (_, client):
        reply = await say(client)

    assert (reply.choices[0].token_ids, reply.prompt_token_ids) == ([5, 6], [1])
    assert [entry.logprob for entry in reply.choices[0].logprobs.content] == [-1.0, -2.0]


async def test_logprobs_can_be_withheld() -> None:
    """A server that has none is a case of its own."""
    async with serving([Reply("x", logprobs=False)]) as (_, client):
        reply = await say(client, logprobs=True)

    assert reply.choices[0].logprobs is None


async def test_a_prompt_begins_with_the_turn_before() -> None:
    """As at a real server with a sane chat template; training on whole episodes relies on it."""
    extra = {"return_token_ids": True}
    async with serving(["ab", "c"]) as (_, client):
        first = await say(client, extra_body=extra)
        messages = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "ab"},
            {"role": "user", "content": "on"},
        ]
        second = await say(client, messages=messages, extra_body=extra)
    so_far = first.prompt_token_ids + first.choices[0].token_ids

    assert second.prompt_token_ids[: len(so_far)] == so_far


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(status=429, headers={"Retry-After": "3"}), openai.RateLimitError, "scripted status 429"),
        (Reply(status=503, error="busy"), openai.InternalServerError, "busy"),
        (Reply(status=400, error={"message": "bad", "code": "c"}), openai.BadRequestError, "bad"),
    ],
)
async def test_refusals_look_like_a_servers(reply: Reply, kind: type[openai.APIStatusError], message: str) -> None:
    """Headers included."""
    async with serving([reply]) as (_, client):
        with pytest.raises(kind, match=message) as caught:
            await say(client)

    assert caught.value.response.headers.get("Retry-After") == reply.headers.get("Retry-After")


@pytest.mark.parametrize("drop", ["refused", "before", "mid body"])
@pytest.mark.parametrize("make_transport", [openai.DefaultAsyncHttpxClient, openai.DefaultAioHttpClient])
async def test_a_broken_connection_is_a_connection_error(drop: Any, make_transport: Any) -> None:
    """The wire can break before the request, before the answer and within it."""
    async with serving([Reply("lost", drop=drop), "found"]) as (_, plain), make_transport() as transport:
        client = plain.with_options(http_client=transport)
        with pytest.raises(openai.APIConnectionError):
            await say(client)
        reply = await say(client)

    assert reply.choices[0].message.content == "found"


async def test_a_refused_connection_is_refused_by_the_system() -> None:
    """What the client finds is what it finds where no server runs."""
    async with serving([Reply(drop="refused")]) as (_, client):
        with pytest.raises(openai.APIConnectionError) as caught:
            await say(client)

    assert "ConnectError" in [type(link).__name__ for link in error_chain(caught.value)]


async def test_a_stalled_answer_ends_when_the_client_gives_up() -> None:
    """A deadline that ends with the first byte would wait for the last one for ever."""
    arrived = asyncio.Event()

    def answer(body: dict[str, Any]) -> Reply | str:
        if arrived.is_set():
            return "in time"
        arrived.set()
        return Reply("late", drop="stalled")

    async with serving(answer) as (_, client):
        asked = asyncio.create_task(say(client))
        await arrived.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 0.1)
        reply = await say(client)

    assert reply.choices[0].message.content == "in time"


async def test_a_raw_body_is_sent_as_it_is() -> None:
    """For answers that no well-behaved server gives."""
    async with serving([Reply(raw_body={"choices": None}), Reply(raw_body="{")]) as (_, client):
        odd = await say(client)
        with pytest.raises(ValueError, match="Expecting"):
            await say(client)

    assert odd.choices is None


async def test_a_wrong_key_is_refused() -> None:
    """A forgotten key must not pass a test."""
    async with (
        ChatServer(["never"]) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="wrong", max_retries=0) as client,
    ):
        with pytest.raises(openai.AuthenticationError):
            await say(client)
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()

    assert server.requests == []


async def test_only_the_named_models_are_served() -> None:
    """A misspelt inference name is found."""
    async with serving(["ok", "ok"], models=["agent", "agent@3"]) as (_, client):
        names = [model.id async for model in client.models.list()]
        reply = await say(client, model="agent@3")
        with pytest.raises(openai.NotFoundError, match="ghost"):
            await say(client, model="ghost")

    assert (names, reply.model) == (["agent", "agent@3"], "agent@3")


async def test_streaming_is_refused_in_words() -> None:
    """A stream that never comes would hang the test."""
    async with serving(["never"]) as (_, client):
        with pytest.raises(openai.BadRequestError, match="stream"):
            await say(client, stream=True)


async def test_closing_ends_requests_that_are_still_running() -> None:
    """A test that gave up on an answer must not wait for it."""
    arrived = asyncio.Event()

    def answer(body: dict[str, Any]) -> Reply:
        arrived.set()
        return Reply("never", delay_s=3600.0)

    async with serving(answer) as (server, client):
        asked = asyncio.create_task(say(client))
        await arrived.wait()
        await server.close()
        with pytest.raises(openai.APIConnectionError):
            await asked


async def test_starting_and_closing_are_idempotent() -> None:
    """Whoever holds it may do either."""
    server = ChatServer([])
    await server.start()
    first = server.base_url
    await server.start()
    again = server.base_url
    await server.close()
    await server.close()

    assert (first == again, server.is_running) == (True, False)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("hello", r"'hello' is one reply, not a script .*give \['hello'\]"),
        (Reply("hello"), r"is one reply, not a script .*give \[Reply"),
        (5, "script=5 is no script .*give a list of replies"),
        (iter(["hello"]), "is no script .*give a list of replies"),
    ],
)
def test_what_is_no_script_is_refused_when_the_server_is_made(script: Any, message: str) -> None:
    """A str is a sequence too, and would be served letter by letter."""
    with pytest.raises(ConfigurationError, match=message):
        ChatServer(script)


def test_its_address_is_unknown_until_it_runs() -> None:
    """A free port is found when it starts."""
    with pytest.raises(ConfigurationError, match="not running"):
        _ = ChatServer([]).base_url


def test_it_serves_from_a_thread_where_there_is_no_event_loop() -> None:
    """For tests that are not async."""
    with (
        ChatServer(["one"]) as server,
        openai.OpenAI(base_url=server.base_url, api_key=server.api_key) as client,
    ):
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])

    assert (reply.choices[0].message.content, server.is_running) == ("one", False)


async def test_a_model_of_the_server_samples_from_it() -> None:
    """A prompted model, as ART calls it."""
    async with ChatServer(["one"]) as server:
        model = server.model("judge")
        client = model.openai_client()
        reply = await client.chat.completions.create(
            model=model.get_inference_name(), messages=[{"role": "user", "content": "go"}]
        )
        await client.close()

    assert (reply.choices[0].message.content, reply.model, model.trainable) == ("one", "judge", False)
