"""Continuous batching."""

from __future__ import annotations

import random

import pytest
import torch

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.sampler import SamplingSettings


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """A micro model whose distributions are far from flat."""
    return BaseModel.open("artkit/micro").decoder(seed=3).requires_grad_(False)


def request(seed: int, prompt: int = 12, tokens: int = 8, ends: frozenset[int] = frozenset()) -> Generation:
    ids = random.Random(seed).choices(range(102), k=prompt)
    return Generation(
        prompt_ids=ids, max_new_tokens=tokens, end_ids=ends, settings=SamplingSettings(), random=random.Random(seed)
    )


def run(batch: Batch) -> None:
    while batch:
        batch.step()


def test_logprobs_are_those_of_a_plain_forward_pass(decoder: Decoder) -> None:
    """The cache, the batch and the padding change nothing that training would see."""
    batch = Batch(decoder)
    requests = [request(seed, prompt=3 + 5 * seed, tokens=2 + 3 * seed) for seed in range(6)]
    for one in requests:
        batch.add(one)
        batch.step()
    run(batch)

    for one in requests:
        ids = torch.tensor([[*one.prompt_ids, *one.token_ids]])
        logprobs = decoder.logits(decoder(ids, torch.arange(ids.shape[1])[None]))[0].log_softmax(dim=-1)
        places = torch.arange(len(one.prompt_ids), ids.shape[1])
        expected = logprobs[places - 1, ids[0, places]]
        assert len(one.token_ids) == one.max_new_tokens
        torch.testing.assert_close(torch.tensor(one.logprobs), expected, atol=1e-4, rtol=0)


def test_a_reply_does_not_depend_on_its_batch_mates(decoder: Decoder) -> None:
    """Neither on who was there first, nor on who leaves in the middle."""
    alone = request(7, tokens=12)
    batch = Batch(decoder)
    batch.add(alone)
    run(batch)

    crowded = request(7, tokens=12)
    batch = Batch(decoder)
    for seed in range(10):
        batch.add(request(20 + seed, prompt=1 + 9 * seed, tokens=1 + seed))
    batch.step()
    batch.add(crowded)
    batch.add(request(40, prompt=80, tokens=20))
    run(batch)

    assert crowded.token_ids == alone.token_ids
    assert crowded.logprobs == pytest.approx(alone.logprobs, abs=1e-5)


@pytest.mark.parametrize("lengths", [(300, 60, 190, 200, 260, 340), (40, 340, 260, 193, 192)])
def test_what_is_known_of_a_prompt_changes_no_bit(decoder: Decoder, lengths: tuple[int, ...]) -> None:
    """A later turn begins as the turn before, and may be asked beside longer ones; both at once, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = [request(50, prompt=length) for length in lengths]
        for one in alone:
            batch = Batch(decoder)
            batch.add(one)
            run(batch)
        crowded = [request(50, prompt=length) for length in lengths]
        batch = Batch(decoder)
        for number, one in enumerate(crowded):
            batch.add(one)
            batch.add(request(51 + number, prompt=30 + 60 * number, tokens=3))
            batch.step()
        run(batch)
    finally:
        torch.set_num_threads(threads)

    assert len({tuple(one.prompt_ids[:40]) for one in alone}) == 1
    assert [(one.token_ids, one.logprobs) for one in crowded] == [(one.token_ids, one.logprobs) for one in alone]


def test_a_reply_ends_with_its_end_marker(decoder: Decoder) -> None:
    """The sampled marker is part of the reply: it is what the model has to learn to say."""
    one = request(1, tokens=500, ends=frozenset(range(40)))
    batch = Batch(decoder)
    batch.add(one)
    run(batch)

    assert one.finish_reason == "stop"
    assert [token_id < 40 for token_id in one.token_ids] == [False] * (len(one.token_ids) - 1) + [True]


def test_an_abandoned_request_leaves_and_the_others_stay(decoder: Decoder) -> None:
    """Nobody waits for it, so nobody pays for it."""
    alone, beside, abandoned = request(5), request(5), request(6, tokens=1_000)
    batch = Batch(decoder)
    batch.add(alone)
    run(batch)

    batch = Batch(decoder)
    batch.add(abandoned)
    batch.add(beside)
    batch.step()
    abandoned.is_abandoned = True
    run(batch)

    assert beside.token_ids == alone.token_ids
    assert len(abandoned.token_ids) == 2


def test_more_requests_than_rows_are_all_answered(decoder: Decoder) -> None:
    """The rest waits for a row."""
    batch = Batch(decoder)
    requests = [request(seed, prompt=4, tokens=1 + seed % 3) for seed in range(700)]
    for one in requests:
        batch.add(one)
    run(batch)

    assert [len(one.token_ids) for one in requests] == [one.max_new_tokens for one in requests]


def test_an_id_that_the_tokenizer_does_not_know_is_never_sampled() -> None:
    """Embeddings are padded to round numbers; such an id would fail a run one day."""
    base = BaseModel.open("artkit/micro")
    decoder = Decoder(base.config, used_vocab_size=10).requires_grad_(False)
    batch = Batch(decoder)
    one = request(0, tokens=200)
    batch.add(one)
    run(batch)

    assert max(one.token_ids) < 10
