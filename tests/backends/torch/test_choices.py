"""Several choices of one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import art
import openai
import pytest

from artkit.transport import SamplingRequest

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

    from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Ask = Callable[..., Awaitable["ChatCompletion"]]
REQUEST = SamplingRequest(
    model="agent@0", messages=[{"role": "user", "content": "hello"}], max_completion_tokens=6, logprobs=True
)


@pytest.fixture
def ask(backend: TorchBackend, model: Model) -> Ask:
    """Asks for so many choices."""

    async def ask(n: int, seed: int | None = 1, **changes: Any) -> ChatCompletion:
        request = replace(REQUEST, seed=seed, extra_body={"n": n}, **changes)
        return await backend.sampling_client(model).complete(request)

    return ask


async def test_the_first_choice_is_the_one_that_would_have_come_alone(ask: Ask) -> None:
    """The others differ from it, and are the same the next time."""
    alone, several, again = await ask(1), await ask(16), await ask(16)

    assert several.choices[0] == alone.choices[0]
    assert again.choices == several.choices
    assert [choice.index for choice in several.choices] == list(range(16))
    assert len({choice.message.content for choice in several.choices}) == 16


async def test_choices_differ_between_seeds_and_without_one(ask: Ask) -> None:
    """Two members of a group that ask for several must not get the same ones."""
    replies = [await ask(3, seed=seed) for seed in (1, 2, None, None)]

    assert len({choice.message.content for reply in replies for choice in reply.choices}) == 12


async def test_usage_counts_the_prompt_once_and_every_choice(ask: Ask) -> None:
    """As OpenAI and vLLM count."""
    reply = await ask(3)

    lengths = [len((choice.model_extra or {})["token_ids"]) for choice in reply.choices]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (8, sum(lengths))
    assert reply.usage.total_tokens == 8 + sum(lengths)


async def test_each_choice_stops_at_its_own_stop_string(ask: Ask) -> None:
    """What one has said is nothing to another."""
    whole = await ask(4, max_completion_tokens=20)
    texts = [choice.message.content or "" for choice in whole.choices]
    stop = texts[2][5:7]

    stopped = await ask(4, max_completion_tokens=20, stop=stop)

    assert [choice.message.content for choice in stopped.choices] == [text.split(stop)[0] for text in texts]


async def test_arts_client_takes_them(ask: Ask, model: Model) -> None:
    """It checks the counts of tokens, on either ART version."""
    direct = await ask(2)
    async with openai.DefaultAioHttpClient() as http_client:
        client = model.openai_client().with_options(http_client=http_client, max_retries=0)
        served = await client.chat.completions.create(
            model="agent@0", messages=REQUEST.messages, max_completion_tokens=6, seed=1, n=2, logprobs=True
        )

    assert [choice.model_dump() for choice in direct.choices] == [
        choice.model_dump(exclude={"art_completion_tokens"}) for choice in served.choices
    ]


async def test_whoever_gives_up_takes_all_choices_out_of_the_batch(
    ask: Ask, backend: TorchBackend, until: Callable[[Callable[[], bool]], Awaitable[None]]
) -> None:
    """Their tokens would be sampled for nobody."""
    request = asyncio.ensure_future(ask(4, max_completion_tokens=2000))
    await until(lambda: len(backend._worker._pending) == 4)
    request.cancel()
    await until(lambda: not backend._worker._pending and not backend._worker._batches)

    with pytest.raises(asyncio.CancelledError):
        await request


async def test_a_backend_that_closes_says_so_once(ask: Ask, backend: TorchBackend) -> None:
    """Not in a group of errors, one for each choice."""
    request = asyncio.ensure_future(ask(4, max_completion_tokens=2000))
    await asyncio.sleep(0)
    await backend.close()

    with pytest.raises(openai.InternalServerError, match="closed"):
        await request
