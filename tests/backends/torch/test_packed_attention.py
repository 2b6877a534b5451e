"""Sequences that are computed together, packed and with their prompts shared, against each by itself."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from artkit.backends.torch import LoraSettings
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.decoder_config import DecoderConfig
from artkit.backends.torch.lora import with_adapters
from artkit.backends.torch.sequences import TokenSequence
from artkit.backends.torch.token_batch import TokenBatch, micro_batches

CPU = torch.device("cpu")
SHAPE: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}
SHAPES: dict[str, dict[str, Any]] = {
    "heads": {"num_key_value_heads": 4},
    "shared-keys": {"num_key_value_heads": 2, "query_key_norm": True, "qkv_bias": True, "tie_word_embeddings": False},
}


def decoder(name: str = "heads", *, lora: bool = False) -> Decoder:
    made = Decoder(DecoderConfig(**SHAPE, **SHAPES[name]), used_vocab_size=38)
    made.initialize(torch.Generator().manual_seed(0))
    if not lora:
        return made
    adapted = with_adapters(made.requires_grad_(False), LoraSettings(rank=2), torch.Generator().manual_seed(1))
    with torch.no_grad():
        for number, value in enumerate(value for value in adapted.parameters() if value.requires_grad):
            value.normal_(std=0.1, generator=torch.Generator().manual_seed(number))
    return adapted


def family(rng: random.Random, prompt: int, replies: list[int], tail: int = 0) -> list[TokenSequence]:
    """Replies of these lengths to one prompt; of each every third id is not trained on, nor is the tail."""
    ids = [rng.randrange(38) for _ in range(prompt)]
    made = []
    for reply in replies:
        targets = [prompt + place for place in range(reply) if place % 3 != 1]
        made.append(
            TokenSequence(
                token_ids=[*ids, *(rng.randrange(38) for _ in range(reply + tail))],
                targets=targets,
                logprobs=[0.0] * len(targets),
            )
        )
    return made


def families() -> list[TokenSequence]:
    """Of unlike prompts and replies: replies of one token, single replies, and what comes behind the last target."""
    rng = random.Random(0)
    made = [
        *family(rng, 9, [4, 1, 7, 4]),
        *family(rng, 1, [3, 2]),
        *family(rng, 9, [5]),
        *family(rng, 14, [1, 1]),
        *family(rng, 20, [6, 6, 2], tail=3),
    ]
    return rng.sample(made, len(made))


def alone(of: Decoder, sequence: TokenSequence) -> torch.Tensor:
    """The log probabilities of the targets, by the whole sequence and nothing else."""
    ids = torch.tensor([sequence.token_ids])
    scores = of.logits(of(ids, torch.arange(ids.shape[1])[None]))[0].log_softmax(dim=-1)
    places = torch.tensor(sequence.targets)
    return scores[places - 1, ids[0, places]]


def packed(of: Decoder, batches: list[TokenBatch]) -> dict[int, torch.Tensor]:
    """The log probabilities of each sequence's targets, by the number of the sequence."""
    found = {}
    for batch in batches:
        logprobs, _ = batch.score(of)
        found |= {member: logprobs[batch.rows == row] for row, member in enumerate(batch.members)}
    return found


def gradients(of: Decoder) -> dict[str, torch.Tensor]:
    return {name: value.grad for name, value in of.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("idle_tokens", [0.0, math.inf], ids=["packed", "grids"])
@pytest.mark.parametrize("max_tokens", [1, 40, 100_000])
@pytest.mark.parametrize("lora", [False, True], ids=["all", "lora"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_computed_together_is_as_if_it_were_alone(
    shape: str, lora: bool, max_tokens: int, idle_tokens: float
) -> None:
    """Log probabilities and gradients: sharing a prompt is a matter of time, and of nothing else."""
    sequences, weights = families(), [1.0 + number for number in range(len(families()))]
    together, apart = decoder(shape, lora=lora), decoder(shape, lora=lora)
    found = packed(together, list(micro_batches(sequences, CPU, max_tokens, idle_tokens=idle_tokens)))
    sum((weights[member] * logprobs.sum() for member, logprobs in found.items()), torch.zeros(())).backward()
    expected = {number: alone(apart, sequence) for number, sequence in enumerate(sequences)}
    sum((weights[member] * logprobs.sum() for member, logprobs in expected.items()), torch.zeros(())).backward()

    torch.testing.assert_close({member: found[member] for member in expected}, expected, atol=1e-5, rtol=1e-5)
    largest = max(float(value.abs().max()) for value in gradients(apart).values())
    torch.testing.assert_close(gradients(together), gradients(apart), atol=1e-5 * largest, rtol=1e-5)


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(0, 9),
    st.sampled_from([0.0, math.inf]),
)
@settings(max_examples=40)
def test_nothing_depends_on_what_a_sequence_is_packed_with(
    replies: list[list[int]], seed: int, idle_tokens: float
) -> None:
    """Whatever the lengths beside it."""
    rng, of = random.Random(seed), decoder("shared-keys")
    sequences = [one for some in replies for one in family(rng, rng.randint(1, 8), some)]
    with torch.no_grad():
        found = packed(of, list(micro_batches(sequences, CPU, 60, idle_tokens=idle_tokens)))
        expected = {number: alone(of, sequence) for number, sequence in enumerate(sequences)}

    torch.testing.assert_close({member: found[member] for member in expected}, expected, atol=1e-5, rtol=1e-5)


def test_a_prompt_is_computed_once_for_all_its_replies() -> None:
    """The members of a group have one prompt, which is most of what there is to compute."""
    sequences = family(random.Random(0), 40, [16] * 8)
    (batch,) = micro_batches(sequences, CPU, 2048)

    # The last token of a reply is never looked at.
    assert batch.token_ids.numel() == 40 + 8 * 15
    assert batch.positions.tolist() == [*range(40), *(place for _ in range(8) for place in range(40, 55))]
    assert batch.targets.numel() == sum(len(sequence.targets) for sequence in sequences)


def test_a_group_beyond_the_budget_is_shared_out() -> None:
    """The budget bounds memory, however many members a group has; each part computes the prompt."""
    sequences = family(random.Random(0), 40, [16] * 10)
    batches = list(micro_batches(sequences, CPU, 100))

    assert sorted(member for batch in batches for member in batch.members) == list(range(10))
    assert [batch.token_ids.numel() for batch in batches] == [40 + 4 * 15, 40 + 4 * 15, 40 + 2 * 15]


def test_grids_come_back_in_few_shapes() -> None:
    """Each shape is captured once, and whatever the lengths of a step are, the next one's are others."""
    rng = random.Random(0)
    shapes = set()
    for _ in range(50):
        sequences = [one for _ in range(8) for one in family(rng, 40, [rng.randint(1, 80) for _ in range(8)])]
        grids = list(micro_batches(sequences, CPU, 4096, idle_tokens=math.inf))
        assert sorted(member for grid in grids for member in grid.members) == list(range(64))
        assert all(grid.grid is not None and grid.token_ids.numel() == math.prod(grid.grid) <= 4096 for grid in grids)
        shapes |= {grid.grid for grid in grids}

    assert len(shapes) <= 6


@pytest.mark.parametrize(("tokens", "max_tokens"), [(4200, 5000), (1025, 1100), (19, 24), (70, 50)])
def test_a_grid_stays_within_the_budget(tokens: int, max_tokens: int) -> None:
    """The budget is of memory; what is longer than it has a grid of its own, and no more than it needs."""
    sequence = TokenSequence(token_ids=[1] * (tokens + 1), targets=[tokens], logprobs=[0.0])
    (grid,) = micro_batches([sequence], CPU, max_tokens, idle_tokens=math.inf)

    assert tokens <= grid.token_ids.numel() <= max(tokens, max_tokens)


def test_a_grid_is_for_what_a_device_computes_while_it_waits() -> None:
    """Prompts that are computed for each of their replies must not cost more than the launches they save."""
    sequences = family(random.Random(0), 100, [16] * 8)

    # Eight rows of 128 tokens in place of one prompt and eight replies.
    assert [batch.grid for batch in micro_batches(sequences, CPU, 2048, idle_tokens=1023)] == [None]
    assert [batch.grid for batch in micro_batches(sequences, CPU, 2048, idle_tokens=1024)] == [(8, 128)]
    # Where packs are many, so are the launches that are saved.
    assert [batch.grid for batch in micro_batches(sequences, CPU, 200, idle_tokens=512)] == [(1, 128)] * 8
