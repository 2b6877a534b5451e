"""What CUDA does otherwise than the CPU: nothing that is seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.sampler import SamplingSettings
from artkit.backends.torch.tensor_file import write_tensors

pytestmark = pytest.mark.cuda


def sampled(device: str, lengths: list[int]) -> list[Generation]:
    """The replies of two sets of weights, one after the other in the same memory."""
    base = BaseModel.open("artkit/micro")
    decoders = [base.decoder(seed=seed).to(torch.device(device)).requires_grad_(False).eval() for seed in (0, 1)]
    batch = Batch(decoders[1])
    generations: list[Generation] = []
    for decoder in decoders:
        batch.load(decoder)
        asked = [
            Generation(
                prompt_ids=[random.Random(row).randrange(base.tokenizer.size) for _ in range(length)],
                max_new_tokens=length,
                end_ids=frozenset(),
                settings=SamplingSettings(),
                random=random.Random(row),
            )
            for row, length in enumerate(lengths)
        ]
        for generation in asked[:3]:
            batch.add(generation)
        batch.step()
        for generation in asked[3:]:
            batch.add(generation)
        while batch:
            batch.step()
        batch.rest()
        generations += asked
    return generations


def test_replayed_graphs_sample_what_the_cpu_samples() -> None:
    """Rows join and leave, lengths pass from one captured graph to the next, and weights are replaced under them."""
    lengths = [20, 90, 150, 7, 64, *range(30, 60)]

    on_cpu, on_cuda = sampled("cpu", lengths), sampled("cuda", lengths)

    assert [one.token_ids for one in on_cuda] == [one.token_ids for one in on_cpu]
    for one, other in zip(on_cuda, on_cpu, strict=True):
        torch.testing.assert_close(one.logprobs, other.logprobs, atol=1e-4, rtol=0)


def test_a_file_of_tensors_holds_what_the_device_holds(tmp_path: Path) -> None:
    """They come in one transfer for each dtype, and are told apart again."""
    tensors = {
        "matrix": torch.randn(3, 4),
        "half": torch.randn(5).bfloat16(),
        "step": torch.tensor(7.0),
        "transposed": torch.randn(2, 3).t(),
    }

    write_tensors(tmp_path / "tensors", {name: tensor.cuda() for name, tensor in tensors.items()}, {"format": "pt"})
    found = load_file(tmp_path / "tensors")

    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
