"""Trajectories that ART captured by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import art
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from artkit.backends.torch.demonstrations import demonstrated_sequences
from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.backends.torch.sequences import sampled_sequences
from artkit.errors import BackendError
from artkit.testing import ChatServer

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

    from artkit.backends.torch import TorchBackend

pytestmark = pytest.mark.art_captures

Model = art.TrainableModel[Any, Any]


async def converse(model: Model, seed: int) -> tuple[art.Trajectory, list[Choice]]:
    """A question, and two ways to go on behind its answer."""
    client = model.openai_client()
    choices = []

    async def ask(messages: list[Any]) -> str:
        reply = await client.chat.completions.create(
            model=model.get_inference_name(), messages=messages, max_completion_tokens=4, seed=seed, logprobs=True
        )
        choices.append(reply.choices[0])
        return reply.choices[0].message.content or ""

    with art.Trajectory() as trajectory:
        asked = [{"role": "user", "content": "q"}]
        answered = [*asked, {"role": "assistant", "content": await ask(asked)}]
        for question in ("more", "else"):
            await ask([*answered, {"role": "user", "content": question}])
    return trajectory, choices


async def test_every_captured_reply_is_trained_on_once(model: Model) -> None:
    """Behind the prompt that it really had, however ART orders what it captured."""
    trajectory, choices = await converse(model, seed=1)
    await model.openai_client().close()

    sequences = sampled_sequences(trajectory, vocab_size=MicroTokenizer().size)

    found = [
        (sequence.token_ids[:place], sequence.token_ids[place]) for sequence in sequences for place in sequence.targets
    ]
    extras = [choice.model_extra or {} for choice in choices]
    assert sorted(found) == sorted(
        (extra["prompt_token_ids"] + extra["token_ids"][:i], token_id)
        for extra in extras
        for i, token_id in enumerate(extra["token_ids"])
    )


async def test_captured_trajectories_train(model: Model, backend: TorchBackend) -> None:
    """Through ART's own client, on ART's own objects."""
    played = [await converse(model, seed) for seed in range(4)]
    await model.openai_client().close()
    for reward, (trajectory, _) in enumerate(played):
        trajectory.reward = float(reward)

    result = await backend.train(model, [art.TrajectoryGroup([trajectory for trajectory, _ in played])])

    assert (result.step, result.metrics["data/step_num_groups_trainable"]) == (1, 1.0)
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4
    assert result.metrics["data/step_trainer_tokens"] == sum(
        len((choice.model_extra or {})["token_ids"]) for _, choices in played for choice in choices
    )


async def test_a_captured_conversation_is_a_demonstration() -> None:
    """Of another model, say, that a small one is to learn from."""
    asked: list[Any] = [{"role": "user", "content": "ask"}]
    answered = [*asked, {"role": "assistant", "content": "one"}, {"role": "user", "content": "go on"}]
    async with (
        ChatServer(["one", "two"]) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key) as client,
    ):
        with art.Trajectory() as trajectory:
            await client.chat.completions.create(model="m", messages=asked)
            await client.chat.completions.create(model="m", messages=answered)
    tokenizer = MicroTokenizer()

    (sequence,) = demonstrated_sequences(trajectory, tokenizer)

    assert tokenizer.decode(sequence.token_ids) == "askonego ontwo"
    assert tokenizer.decode([sequence.token_ids[place] for place in sequence.targets]) == "onetwo"


async def test_captured_text_that_is_no_chat_is_refused() -> None:
    """There are no turns in it."""

    async def complete(request: web.Request) -> web.Response:
        del request
        choice = {"index": 0, "text": "b", "finish_reason": "stop", "logprobs": None}
        return web.json_response(
            {"id": "1", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}
        )

    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    async with (
        TestServer(app) as server,
        openai.AsyncOpenAI(base_url=str(server.make_url("/v1")), api_key="none") as client,
    ):
        with art.Trajectory() as trajectory:
            await client.completions.create(model="m", prompt="a")

    with pytest.raises(BackendError, match="cannot be read as a chat"):
        sampled_sequences(trajectory, vocab_size=10)
