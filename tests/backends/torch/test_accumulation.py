"""An update over micro-batches, and the dtype that it is computed in."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest
import torch
from safetensors.torch import load_file

from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.learner import Learner
from artkit.backends.torch.losses import PolicyLoss
from artkit.backends.torch.policy_settings import PolicySettings
from artkit.backends.torch.sequences import TokenSequence
from artkit.backends.torch.token_batch import micro_batches
from artkit.backends.torch.train_options import TrainOptions
from artkit.errors import CheckpointError

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
CPU = torch.device("cpu")
LORA = LoraSettings(rank=4)


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


def sequences(count: int = 24) -> list[TokenSequence]:
    """Of all lengths, with targets at their ends, sampled from other weights."""
    rng = random.Random(0)
    made = []
    for _ in range(count):
        tokens = rng.randint(3, 60)
        targets = list(range(rng.randint(1, tokens - 1), tokens))
        ids = [rng.randrange(100) for _ in range(tokens)]
        made.append(TokenSequence(token_ids=ids, targets=targets, logprobs=[-4.0 - rng.random() for _ in targets]))
    return made


def learner(lora: LoraSettings | None = None, micro_batch_tokens: int | None = None, dtype: str = "float32") -> Learner:
    settings = PolicySettings.of(seed=0, device="cpu", dtype=dtype, lora=lora, micro_batch_tokens=micro_batch_tokens)
    return Learner(BaseModel.open("artkit/micro"), settings, seed=0)


def update(trained: Learner, options: TrainOptions) -> dict[str, float]:
    """One update on the same sequences."""
    rng = random.Random(1)
    made = sequences()
    job = trained.reinforce(
        made, [rng.uniform(-1, 1) for _ in made], [1.0] * len(made), options, trained.weights.at(None)
    )
    try:
        while True:
            next(job)
    except StopIteration as done:
        metrics: dict[str, float] = done.value
    return metrics


def gradients(trained: Learner) -> dict[str, torch.Tensor]:
    return {name: value.grad for name, value in trained.weights.decoder.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("lora", [None, LORA], ids=["all", "lora"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_an_update_does_not_depend_on_its_micro_batches(lora: LoraSettings | None, level: Any) -> None:
    """They bound memory, and change nothing else: gradients, metrics and the KL penalty's mean are the whole step's."""
    options = TrainOptions(
        learning_rate=1e-3, loss=PolicyLoss(importance_sampling_level=level), kl_penalty_coef=0.1, max_grad_norm=None
    )
    whole, parts = learner(lora, 100_000), learner(lora, 100)
    metrics = update(whole, options), update(parts, options)

    torch.testing.assert_close(gradients(parts), gradients(whole), atol=1e-6, rtol=1e-5)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-4, abs=1e-5)


def test_an_update_in_one_pass_equals_one_in_many() -> None:
    """In the weights, too, where AdamW's first step, the sign of the gradient, leaves room for rounding."""
    # By weight decay and a rate at which a gradient around zero cannot tell.
    options = TrainOptions(learning_rate=1e-7, weight_decay=0.1)
    whole, parts = learner(None, 100_000), learner(None, 100)
    update(whole, options), update(parts, options)

    torch.testing.assert_close(
        parts.weights.decoder.state_dict(), whole.weights.decoder.state_dict(), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)], ids=["all", "another rank"])
def test_an_optimiser_of_other_parameters_is_refused(tmp_path: Path, lora: LoraSettings | None) -> None:
    """By the name of the checkpoint, as damage of any other kind is."""
    other = learner(lora)
    update(other, TrainOptions(learning_rate=1e-3))
    other.save(tmp_path)

    with pytest.raises(CheckpointError, match="of other parameters"):
        learner(LORA).load(tmp_path)


def test_nothing_is_padded() -> None:
    """A pass has as many tokens as its sequences, within the budget; one that is longer than it has its own."""
    made = [*sequences(), TokenSequence(token_ids=[1] * 500, targets=[499], logprobs=[-1.0])]
    batches = list(micro_batches(made, CPU, 200))

    # Nothing follows from a sequence's last token.
    tokens = sum(len(sequence.token_ids) - 1 for sequence in made)
    assert sorted(member for batch in batches for member in batch.members) == list(range(len(made)))
    assert all(batch.token_ids.numel() <= 200 for batch in batches[:-1])
    assert batches[-1].token_ids.shape == (499,)
    assert sum(batch.token_ids.numel() for batch in batches) <= tokens


@pytest.mark.parametrize("lora", [None, LORA], ids=["all", "lora"])
def test_what_is_trained_stays_in_float32(lora: LoraSettings | None) -> None:
    """A small step would be rounded away in bfloat16, whose neighbours are 0.4 % apart."""
    trained = learner(lora, dtype="bfloat16")
    before = {name: value.clone() for name, value in trained.weights.decoder.state_dict().items()}
    metrics = update(trained, TrainOptions(learning_rate=1e-6))
    exact = update(learner(lora), TrainOptions(learning_rate=1e-6))

    learnt = [(name, value) for name, value in trained.weights.decoder.named_parameters() if value.requires_grad]
    assert all(value.dtype == torch.float32 and value.grad.dtype == torch.float32 for _, value in learnt)
    assert any(not torch.equal(before[name], value) for name, value in learnt)
    assert all(value.dtype == torch.bfloat16 for value in trained.weights.snapshot().parameters())
    assert all(value.dtype == torch.bfloat16 for value in trained.weights.at(None).parameters())
    assert metrics["loss/grad_norm"] == pytest.approx(exact["loss/grad_norm"], rel=0.1)
    assert metrics["loss/entropy"] == pytest.approx(exact["loss/entropy"], rel=0.02)


@pytest.mark.parametrize("lora", [None, LORA], ids=["all", "lora"])
async def test_a_bfloat16_policy_is_sampled_trained_and_resumed(
    tmp_path: Path, make_model: Any, play: Play, find: Callable[[str], list[Path]], lora: LoraSettings | None
) -> None:
    """Sampler and learner agree to what bfloat16 can tell apart; checkpoints hold float32, so resuming is exact."""

    async def steps(name: str, first: int, last: int) -> list[float]:
        async with TorchBackend(tmp_path / name, dtype="bfloat16", lora=lora) as backend:
            model = make_model()
            await model.register(backend)
            results = [
                await backend.train(model, await play(model, length, seed=step), learning_rate=0.01)
                for step in range(first, last)
            ]
        return [result.metrics["offpolicy/max_logprob_gap"] for result in results]

    gaps = [*await steps("whole", 0, 2), *await steps("parts", 0, 1), *await steps("parts", 1, 2)]

    parts, whole = (load_file(file) for file in find("0002/*model.safetensors"))
    assert max(gaps) < 0.1
    assert all(value.dtype == torch.float32 for value in whole.values())
    torch.testing.assert_close(parts, whole, atol=0, rtol=0)
