"""What CUDA does otherwise than the CPU: nothing that is seen."""

from __future__ import annotations

import random

import pytest
import torch

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.sampler import SamplingSettings

pytestmark = pytest.mark.cuda


def sampled(device: str, lengths: list[int]) -> list[Generation]:
    base = BaseModel.open("artkit/micro")
    decoder = base.decoder(seed=0).to(torch.device(device)).requires_grad_(False).eval()
    generations = [
        Generation(
            prompt_ids=[random.Random(row).randrange(base.tokenizer.size) for _ in range(length)],
            max_new_tokens=length,
            end_ids=frozenset(),
            settings=SamplingSettings(),
            random=random.Random(row),
        )
        for row, length in enumerate(lengths)
    ]
    batch = Batch(decoder)
    for generation in generations[:3]:
        batch.add(generation)
    batch.step()
    for generation in generations[3:]:
        batch.add(generation)
    while batch:
        batch.step()
    return generations


def test_replayed_graphs_sample_what_the_cpu_samples() -> None:
    """Rows join and leave, and lengths pass from one captured graph to the next."""
    lengths = [20, 90, 150, 7, 64, *range(30, 60)]

    on_cpu, on_cuda = sampled("cpu", lengths), sampled("cuda", lengths)

    assert [one.token_ids for one in on_cuda] == [one.token_ids for one in on_cpu]
    for one, other in zip(on_cuda, on_cpu, strict=True):
        torch.testing.assert_close(one.logprobs, other.logprobs, atol=1e-4, rtol=0)
