"""A model whose chat completions are watched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from artkit.bridge import make_trainable_model, with_recorded_client
from artkit.testing import ChatServer, DiaryBackend, Reply

Exchanges = list[tuple[list[Any], Any]]


def into(exchanges: Exchanges) -> Any:
    """Write down what was said, and what was answered or raised."""

    def note(request: dict[str, Any], outcome: Any) -> None:
        answer = type(outcome) if isinstance(outcome, BaseException) else outcome.choices[0].message.content
        exchanges.append((request["messages"], answer))

    return note


async def say(client: Any, text: str) -> Any:
    return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


async def test_every_reply_is_reported_with_what_was_asked() -> None:
    """The turns of a rollout that knows nothing of artkit."""
    exchanges: Exchanges = []
    async with ChatServer(["one", "two"]) as server:
        model = with_recorded_client(server.model(), into(exchanges))
        async with model.openai_client() as client:
            await say(client, "a")
            await say(client.with_options(max_retries=0), "b")

    assert exchanges == [
        ([{"role": "user", "content": "a"}], "one"),
        ([{"role": "user", "content": "b"}], "two"),
    ]


async def test_the_messages_are_those_that_were_sent() -> None:
    """A rollout goes on appending to its list."""
    exchanges: Exchanges = []
    messages = [{"role": "user", "content": "a"}]
    async with ChatServer(["one"]) as server:
        model = with_recorded_client(server.model(), into(exchanges))
        async with model.openai_client() as client:
            await client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
        messages.append({"role": "user", "content": "later"})

    assert exchanges == [([{"role": "user", "content": "a"}], "one")]


async def test_the_model_itself_is_not_watched() -> None:
    """Rollouts side by side each watch their own copy."""
    exchanges: Exchanges = []
    async with ChatServer(["one"]) as server:
        model = server.model()
        watched = with_recorded_client(model, into(exchanges))
        client = model.openai_client()
        await say(client, "a")
        await client.close()

    assert (exchanges, watched is model, watched.name, type(watched)) == ([], False, model.name, type(model))


async def test_a_failed_request_is_reported_with_its_error() -> None:
    """Whoever rebuilds the episode must know that the model was asked, and what became of it."""
    exchanges: Exchanges = []
    async with (
        ChatServer([Reply(status=400)]) as server,
        with_recorded_client(server.model(), into(exchanges)).openai_client() as client,
    ):
        with pytest.raises(openai.BadRequestError):
            await say(client, "a")

    assert exchanges == [([{"role": "user", "content": "a"}], openai.BadRequestError)]


async def test_parsed_replies_are_reported_too() -> None:
    """Structured output is a turn like any other."""

    class Answer(BaseModel):
        value: int

    exchanges: Exchanges = []
    async with (
        ChatServer(['{"value": 4}']) as server,
        with_recorded_client(server.model(), into(exchanges)).openai_client() as client,
    ):
        parsed = await client.chat.completions.parse(
            model="m", messages=[{"role": "user", "content": "2+2"}], response_format=Answer
        )

    assert (parsed.choices[0].message.parsed, exchanges[0][1]) == (Answer(value=4), '{"value": 4}')


async def test_every_way_to_ask_for_a_chat_is_reported() -> None:
    """LangChain asks for raw responses, and older rollouts for `beta`."""
    exchanges: Exchanges = []
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    async with (
        ChatServer(["one", "two"]) as server,
        with_recorded_client(server.model(), into(exchanges)).openai_client() as client,
    ):
        raw = await client.chat.completions.with_raw_response.create(**asked)
        await client.beta.chat.completions.parse(**asked)

    assert [answer for _, answer in exchanges] == ["one", "two"]
    assert raw.parse().choices[0].message.content == "one"


async def test_art_s_own_client_stays_in_place_underneath(tmp_path: Path) -> None:
    """Costs and token ids come from it."""
    replies: list[Any] = []
    async with ChatServer(["ok"]) as server:
        model = make_trainable_model(
            name="agent", project="demo", base_model="none", base_path=str(tmp_path), report_metrics=[]
        )
        await model.register(DiaryBackend(server))
        model.set_cost_calculator(lambda prompt, completion, context: {"costs/train/tokens": float(completion or 0)})
        watched = with_recorded_client(model, lambda request, reply: replies.append(reply))
        async with watched.openai_client() as client:
            with model.metrics_builder("train").activate_context():
                reply = await say(client, "a")
        costs = await model.metrics_builder("train").flush()

    assert (replies, costs["costs/train/tokens"]) == ([reply], 2.0)


async def test_everything_else_of_the_client_is_still_there() -> None:
    """A rollout may use more of it than chat completions."""
    async with (
        ChatServer([], models=["m"]) as server,
        with_recorded_client(server.model(), lambda request, reply: None).openai_client() as client,
    ):
        found = ([each.id async for each in client.models.list()], str(client.base_url))
        expected = (["m"], server.base_url + "/")

    assert found == expected
