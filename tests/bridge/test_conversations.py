"""What was said in a trajectory, and what is kept out of it."""

from __future__ import annotations

from typing import Any

import art
import openai
import pytest

from artkit.bridge import conversations, no_capture
from artkit.testing import ChatServer, Reply, choice

TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
ASKED: Any = [{"role": "user", "content": "q"}]


def test_turns_are_given_as_they_are_held() -> None:
    """Only a `Choice` tells how a reply ended."""
    reply = choice(Reply("It is", finish_reason="length"))
    (conversation,) = conversations(art.Trajectory(messages_and_choices=[*ASKED, reply], tools=TOOLS))

    assert list(conversation.turns) == [*ASKED, reply]
    assert conversation.tools == TOOLS


async def say(server: ChatServer, **options: Any) -> None:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key) as client:
        await client.chat.completions.create(model="m", messages=ASKED, **options)


@pytest.mark.art_captures
async def test_captured_exchanges_are_read_too() -> None:
    """ART 0.5.23 holds what it captured in a form of its own."""
    async with ChatServer([Reply("It is", finish_reason="length")]) as server:
        with art.Trajectory() as trajectory:
            await say(server, tools=TOOLS)
    (conversation,) = conversations(trajectory)

    assert list(conversation.turns)[:1] == ASKED
    assert (conversation.turns[1].message.content, conversation.turns[1].finish_reason) == ("It is", "length")
    assert list(conversation.tools) == TOOLS


async def test_nothing_is_captured_behind_the_barrier() -> None:
    """And what comes after it is captured again."""

    async def work() -> None:
        with no_capture():
            await say(server)
        await say(server)

    async with ChatServer(["hidden", "seen"]) as server:
        if hasattr(art, "capture_auto_trajectory"):
            trajectory = await art.capture_auto_trajectory(work())
        else:
            with art.Trajectory() as trajectory:
                await work()
    (conversation,) = conversations(trajectory)

    assert [turn.message.content for turn in conversation.turns if not isinstance(turn, dict)] == ["seen"]
