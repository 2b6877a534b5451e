"""Prompts that are not computed twice."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.prefix_cache import BLOCK, PrefixCache
from artkit.backends.torch.sampler import SamplingSettings

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """A micro model whose distributions are far from flat."""
    return BaseModel.open("artkit/micro").decoder(seed=3).requires_grad_(False)


def ids(seed: int, count: int) -> list[int]:
    return random.Random(seed).choices(range(102), k=count)


def request(prompt_ids: list[int], seed: int = 0, tokens: int = 6) -> Generation:
    return Generation(
        prompt_ids=prompt_ids,
        max_new_tokens=tokens,
        end_ids=frozenset(),
        settings=SamplingSettings(),
        random=random.Random(seed),
    )


def replies(batch: Batch, *requests: Generation) -> list[tuple[list[int], list[float]]]:
    for one in requests:
        batch.add(one)
    while batch:
        batch.step()
    return [(one.token_ids, one.logprobs) for one in requests]


def read(start: int, end: int) -> Tensor:
    return torch.arange(start, end, dtype=torch.float32)


def found(cache: PrefixCache, prompt_ids: list[int]) -> list[float]:
    return [value for block in cache.find(prompt_ids) for value in block.tolist()]


def test_what_two_prompts_share_is_found_in_whole_blocks() -> None:
    """And no further than where they differ."""
    cache = PrefixCache(max_bytes=10**6)
    prompt = ids(0, 3 * BLOCK + 5)
    cache.store(prompt, read)

    assert found(cache, prompt) == list(range(3 * BLOCK))
    assert found(cache, [*prompt[: 2 * BLOCK + 3], 101, 101, *ids(1, 40)]) == list(range(2 * BLOCK))
    assert found(cache, [*ids(1, BLOCK), *prompt[BLOCK:]]) == []


def test_the_last_token_is_always_left_to_compute() -> None:
    """Its hidden state is what the reply begins with, and only keys and values are kept."""
    cache = PrefixCache(max_bytes=10**6)
    prompt = ids(0, 2 * BLOCK)
    cache.store(prompt, read)

    assert found(cache, prompt) == list(range(BLOCK))
    assert found(cache, [*prompt, 1]) == list(range(2 * BLOCK))


def test_what_was_not_asked_for_lately_goes_first_and_ends_before_beginnings() -> None:
    """Memory has a bound, and a block without those before it would never be found."""
    cache = PrefixCache(max_bytes=4 * BLOCK * 4)
    old, new = ids(0, 3 * BLOCK), ids(1, 2 * BLOCK)
    cache.store(old, read)
    cache.store(new, read)

    assert found(cache, [*old, 1]) == list(range(2 * BLOCK))
    assert found(cache, [*new, 1]) == list(range(2 * BLOCK))


@pytest.mark.parametrize("crowd", [0, 5, 20])
@pytest.mark.parametrize("shared", [17, 100, 160])
def test_a_reply_does_not_depend_on_what_was_found(decoder: Decoder, shared: int, crowd: int) -> None:
    """A replay must sample the same whether the turn before was played or restored."""
    earlier = ids(1, shared)
    later = [*earlier, *ids(2, 50)]
    fresh = replies(Batch(decoder), request(later))

    batch = Batch(decoder)
    replies(batch, request(earlier))
    again = replies(batch, request(later), *(request(ids(9 + seed, 1 + 7 * seed)) for seed in range(crowd)))

    assert again[0][0] == fresh[0][0]
    assert again[0][1] == pytest.approx(fresh[0][1], abs=1e-5)


def test_members_of_a_group_sample_as_each_would_alone(decoder: Decoder) -> None:
    """Their prompt is computed once; what they draw is their own, now and when a member comes later."""
    prompt = ids(3, 45)
    alone = [replies(Batch(decoder), request(prompt, seed))[0] for seed in range(5)]

    batch = Batch(decoder)
    together = replies(batch, *(request(prompt, seed) for seed in range(4)))
    late = replies(batch, request(prompt, 4))

    assert [reply[0] for reply in [*together, *late]] == [reply[0] for reply in alone]
    for (_, ours), (_, theirs) in zip([*together, *late], alone, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_a_batch_that_rested_goes_on(decoder: Decoder) -> None:
    """It gave back its rows, not what it knows."""
    batch = Batch(decoder)
    first = replies(batch, request(ids(4, 40)))
    batch.rest()

    assert [reply[0] for reply in replies(batch, request(ids(4, 40)))] == [first[0][0]]


def test_a_long_conversation_goes_on_beside_a_fresh_prompt(decoder: Decoder) -> None:
    """Prompts that share a pass are padded to one length, here to beyond the end of the context."""
    conversation = ids(5, 1700)
    fresh = ids(6, 400)
    alone = [replies(Batch(decoder), request(prompt))[0] for prompt in ([*conversation, 1, 2], fresh)]

    batch = Batch(decoder)
    replies(batch, request(conversation))
    together = replies(batch, request([*conversation, 1, 2]), request(fresh))

    assert [reply[0] for reply in together] == [reply[0] for reply in alone]
