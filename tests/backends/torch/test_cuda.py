"""What CUDA does otherwise than the CPU: nothing that is seen."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import torch
from safetensors.torch import load_file

from artkit.backends.torch import LoraSettings
from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.batch import Batch, Generation
from artkit.backends.torch.learner import Learner
from artkit.backends.torch.policy_settings import PolicySettings
from artkit.backends.torch.sampler import SamplingSettings
from artkit.backends.torch.sequences import TokenSequence
from artkit.backends.torch.tensor_file import write_tensors
from artkit.backends.torch.train_options import TrainOptions

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


def update(learner: Learner, sequences: list[TokenSequence]) -> tuple[dict[str, float], list[torch.Tensor]]:
    """One update, with its metrics and gradients."""
    options = TrainOptions(learning_rate=1e-4, max_grad_norm=None)
    advantages = [1.0 if number % 2 else -0.5 for number in range(len(sequences))]
    job = learner.reinforce(sequences, advantages, [1.0] * len(sequences), options)
    try:
        while True:
            next(job)
    except StopIteration as done:
        parameters = learner.weights.decoder.parameters()
        return done.value, [value.grad.cpu() for value in parameters if value.grad is not None]


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)], ids=["all", "lora"])
def test_replayed_updates_are_those_of_the_cpu(lora: LoraSettings | None) -> None:
    """Shapes come back with other lengths and with weights that have moved; several are captured in the same memory."""
    rng = random.Random(0)
    learners = []
    for device in ("cpu", "cuda"):
        settings = PolicySettings.of(seed=0, device=device, dtype="float32", lora=lora, micro_batch_tokens=2048)
        learners.append(Learner(BaseModel.open("artkit/micro"), settings, seed=0))
    for _ in range(5):
        sequences = []
        for number in range(48):
            count = rng.randint(65, 90) if number < 24 else rng.randint(20, 32)
            ids = [rng.randrange(100) for _ in range(count)]
            targets = list(range(rng.randint(1, count // 2), count))
            sequences.append(TokenSequence(token_ids=ids, targets=targets, logprobs=[-4.0] * len(targets)))
        (expected, slow), (metrics, fast) = (update(learner, sequences) for learner in learners)

        assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-4)
        for one, other in zip(fast, slow, strict=True):
            torch.testing.assert_close(one, other, atol=1e-3 * float(other.abs().max()), rtol=1e-2)
    graphs = learners[1]._graphs
    assert graphs is not None
    assert len(graphs._graphs) > 1


def test_a_checkpoint_is_read_while_graphs_are_captured() -> None:
    """As evaluations of an old step do it, on a thread of their own, beside rollouts."""
    with ThreadPoolExecutor(1) as threads:
        is_done = Event()

        def allocate() -> int:
            rounds = 0
            while not is_done.is_set() or not rounds:
                torch.randn(1 << 20, device="cpu").cuda()
                torch.cuda.empty_cache()
                rounds += 1
            return rounds

        allocating = threads.submit(allocate)
        try:
            sampled("cuda", [20, 90, 150, *range(30, 60)])
        finally:
            is_done.set()
        assert allocating.result() > 0


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
