"""A whole update beside ART's own maths, and beside the formulas written out."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import art
import art.loss
import pytest
import torch
import transformers
from art.preprocessing.tokenize import tokenize_trajectory_groups

from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.advantages import group_advantages
from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.learner import Learner
from artkit.backends.torch.losses import PolicyLoss
from artkit.backends.torch.policy_settings import PolicySettings
from artkit.backends.torch.sequences import TokenSequence, sampled_sequences
from artkit.backends.torch.train_options import TrainOptions

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
LENGTHS = [(9, 4), (9, 7), (17, 3), (30, 12), (5, 1)]
ADVANTAGES = [1.0, -1.0, 0.7, -0.3, 2.0]
WEIGHTS = [0.5, 1.5, 2.0, 0.25, 1.0]
COEFFICIENT = 0.4
# What art.loss is told; a gap between sampling and training is left out where it can't be told to penalise the sample.
KL_SOURCE = {"kl_penalty_source": "sample"}
CAN_PENALISE_THE_SAMPLE = hasattr(art.loss, "AlignedLossInputs")


def logprobs_of(decoder: Decoder, sequence: TokenSequence) -> torch.Tensor:
    """Of the targets, in a pass over this sequence alone."""
    ids = torch.tensor([sequence.token_ids])
    hidden = decoder(ids, torch.arange(ids.shape[1])[None])
    every = torch.log_softmax(decoder.logits(hidden)[0], dim=-1)
    return torch.stack([every[place - 1, sequence.token_ids[place]] for place in sequence.targets])


@pytest.fixture
def learner() -> Learner:
    """Of the micro model."""
    settings = PolicySettings.of(seed=0, device="cpu", dtype="float32", lora=None, micro_batch_tokens=48)
    return Learner(BaseModel.open("artkit/micro"), settings, seed=0)


@pytest.fixture
def reference() -> Decoder:
    """Other weights."""
    return BaseModel.open("artkit/micro").decoder(seed=1).requires_grad_(False)


def sequences(learner: Learner, spread: float) -> list[TokenSequence]:
    """Replies behind prompts, two of which are alike, with log probabilities up to `spread` from the present ones."""
    rng = random.Random(0)
    made = []
    for number, (prompt, reply) in enumerate(LENGTHS):
        ids = [*random.Random(max(number, 1)).choices(range(100), k=prompt), *rng.choices(range(100), k=reply)]
        sequence = TokenSequence(ids, list(range(prompt, prompt + reply)))
        with torch.no_grad():
            now = logprobs_of(learner.weights.decoder, sequence).tolist()
        sequence.logprobs = [value + rng.uniform(-spread, spread) for value in now]
        made.append(sequence)
    return made


def update(learner: Learner, made: list[TokenSequence], options: TrainOptions, reference: Decoder | None) -> Any:
    """One, and its metrics."""
    job = learner.reinforce(made, ADVANTAGES, WEIGHTS, options, reference)
    while True:
        try:
            next(job)
        except StopIteration as stop:
            return stop.value


def by_art(learner: Learner, made: list[TokenSequence], reference: Decoder | None, settings: dict[str, Any]) -> Any:
    """ART's loss of the same sequences, one to a row; a value at place t+1 belongs to the log probability at t."""
    width = 1 + max(len(sequence.targets) for sequence in made)
    fillers: dict[str, Any] = {"logprobs": math.nan, "advantages": 0.0, "assistant_mask": False, "weights": 0.0}
    inputs = {name: torch.full((len(made), width), filler) for name, filler in (fillers | {"group_ids": 0}).items()}
    new, ref = torch.zeros(len(made), width), torch.zeros(len(made), width)
    for row, sequence in enumerate(made):
        end = len(sequence.targets)
        new[row, :end] = logprobs_of(learner.weights.decoder, sequence)
        if reference is not None:
            ref[row, :end] = logprobs_of(reference, sequence)
        inputs["logprobs"][row, 1 : end + 1] = torch.tensor(sequence.logprobs)
        inputs["advantages"][row, 1 : end + 1] = ADVANTAGES[row]
        inputs["assistant_mask"][row, 1 : end + 1] = True
        inputs["weights"][row, 1 : end + 1] = WEIGHTS[row]
        inputs["group_ids"][row, 1 : end + 1] = row + 1
    packed: Any = art.loss.LossInputs(inputs=inputs) if hasattr(art.loss, "LossInputs") else inputs
    return art.loss.loss_fn(packed, new, None if reference is None else ref, None, settings)  # type: ignore[arg-type]


def gradient_of(learner: Learner, loss: torch.Tensor) -> torch.Tensor:
    parameters = [value for value in learner.weights.decoder.parameters() if value.requires_grad]
    return torch.cat([value.flatten() for value in torch.autograd.grad(loss, parameters)])


@pytest.mark.parametrize("kind", ["cispo", "ppo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("penalty", [0.0, COEFFICIENT])
def test_an_update_follows_the_gradient_of_arts_loss(
    learner: Learner,
    reference: Decoder,
    kind: Literal["cispo", "ppo"],
    level: Literal["token", "sequence"],
    penalty: float,
) -> None:
    """Through the model, over micro-batches, weights and the KL penalty of the whole step."""
    spread = 1.5 if CAN_PENALISE_THE_SAMPLE or not penalty else 0.0
    made = sequences(learner, spread)
    loss = PolicyLoss(kind=kind, importance_sampling_level=level)
    options = TrainOptions(loss=loss, kl_penalty_coef=penalty, max_grad_norm=None, learning_rate=0.0)
    settings = {"ppo": kind == "ppo", "importance_sampling_level": level, "kl_penalty_coef": penalty, **KL_SOURCE}
    expected = by_art(learner, made, reference if penalty else None, settings)
    gradient = gradient_of(learner, expected.policy_loss)

    metrics = update(learner, made, options, reference if penalty else None)

    found = torch.cat(
        [value.grad.flatten() for value in learner.weights.decoder.parameters() if value.grad is not None]
    )
    assert metrics["loss/train"] == pytest.approx(expected.policy_loss.item(), abs=1e-5)
    torch.testing.assert_close(found, gradient, atol=1e-5, rtol=1e-3)
    assert metrics["loss/grad_norm"] == pytest.approx(gradient.norm().item(), rel=1e-4)
    if penalty:
        assert metrics["loss/kl_policy_ref"] == pytest.approx(expected.kl_policy_ref.item(), abs=1e-5)


@pytest.mark.parametrize("kind", ["cispo", "ppo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("penalty", [0.0, COEFFICIENT])
def test_an_updates_loss_is_the_formula_written_out(
    learner: Learner,
    reference: Decoder,
    kind: Literal["cispo", "ppo"],
    level: Literal["token", "sequence"],
    penalty: float,
) -> None:
    """Number by number, wherever ART is another."""
    made = sequences(learner, spread=1.5)
    with torch.no_grad():
        new = [logprobs_of(learner.weights.decoder, sequence).tolist() for sequence in made]
        ref = [logprobs_of(reference, sequence).tolist() for sequence in made]
    distances = [
        old - at for one, other in zip(made, ref, strict=True) for old, at in zip(one.logprobs, other, strict=True)
    ]
    mean = sum(distances) / len(distances)
    low, high = (0.8, 1.2) if kind == "ppo" else (0.0, 5.0)
    total = 0.0
    for number, (sequence, now, then) in enumerate(zip(made, new, ref, strict=True)):
        gaps = [a - b for a, b in zip(now, sequence.logprobs, strict=True)]
        for gap, logprob, old, at in zip(gaps, now, sequence.logprobs, then, strict=True):
            ratio = math.exp(sum(gaps) / len(gaps) if level == "sequence" else gap)
            clipped = min(max(ratio, low), high)
            advantage = ADVANTAGES[number] + penalty * (mean - (old - at))
            gain = min(ratio * advantage, clipped * advantage) if kind == "ppo" else clipped * advantage * logprob
            total -= WEIGHTS[number] * gain
    loss = PolicyLoss(kind=kind, importance_sampling_level=level)

    metrics = update(learner, made, TrainOptions(loss=loss, kl_penalty_coef=penalty), reference if penalty else None)

    assert metrics["loss/train"] == pytest.approx(total / len(distances), abs=1e-5)
    assert metrics.get("loss/kl_policy_ref", mean) == pytest.approx(mean, abs=1e-5)


def letters(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


@pytest.mark.parametrize("scale", [True, False])
async def test_ids_advantages_and_weights_are_arts(
    tmp_path: Path, make_model: Any, play: Play, find: Callable[[str], list[Path]], scale: bool
) -> None:
    """Of the same groups, through ART's own tokenising."""
    async with TorchBackend(tmp_path) as backend:
        model = make_model()
        await model.register(backend)
        groups = await play(model, letters, prompts=("a", "b", "c"), members=5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(find("0000")[0])
    theirs = [
        tokenize_trajectory_groups(
            tokenizer,
            [art.TrajectoryGroup([*group.trajectories])],
            allow_training_without_logprobs=False,
            scale_rewards=scale,
            shuffle_group_trajectories=False,
            drop_zero_advantage_trajectories=False,
        )
        for group in groups
    ]
    ours: list[Any] = [
        (sequence.token_ids, sequence.targets, pytest.approx(sequence.logprobs), pytest.approx(advantage))
        for group in groups
        for trajectory, advantage in zip(
            group.trajectories, group_advantages([each.reward for each in group.trajectories], scale=scale), strict=True
        )
        for sequence in sampled_sequences(trajectory, vocab_size=1_000)
    ]

    found = []
    for result in itertools.chain.from_iterable(theirs):
        targets = [place for place, is_target in enumerate(result.assistant_mask) if is_target]
        found.append((result.token_ids, targets, [result.logprobs[place] for place in targets], result.advantage))
        assert result.weight == pytest.approx(1 / len(targets), rel=1e-5)
    assert sorted(found, key=lambda each: each[:2]) == sorted(ours, key=lambda each: each[:2])
    assert len(found) == 15


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)], ids=["full", "lora"])
async def test_a_step_weighs_each_trajectory_alike_by_its_advantage(
    tmp_path: Path, make_model: Any, play: Play, scale: bool, lora: LoraSettings | None
) -> None:
    """By hand, on the first update, where every ratio is one: long replies do not shout down short ones."""
    rewards = [3.0, 0.0, 1.0, 0.0]
    mean, spread = 1.0, math.sqrt((4 + 1 + 0 + 1) / 4)
    async with TorchBackend(tmp_path, lora=lora) as backend:
        model = make_model()
        await model.register(backend)
        (group,) = await play(model, letters, prompts=("a",), members=4)
        for trajectory, reward in zip(group.trajectories, rewards, strict=True):
            trajectory.reward = reward
        replies = [sampled_sequences(each, vocab_size=1_000)[0].logprobs for each in group.trajectories]
        replies[0] = replies[0][:2]  # of different lengths
        choice: Any = group.trajectories[0].messages_and_choices[1]
        choice.logprobs.content = choice.logprobs.content[:2]
        choice.model_extra["token_ids"] = choice.model_extra["token_ids"][:2]
        result = await backend.train(model, [group], scale_rewards=scale)

    advantages = [(reward - mean) / (spread + 1e-6 if scale else 1.0) for reward in rewards]
    # The third has no advantage, and is not trained on.
    means = [advantages[n] * sum(replies[n]) / len(replies[n]) for n in (0, 1, 3)]
    assert result.metrics["loss/train"] == pytest.approx(-sum(means) / 3, abs=1e-4)
    assert result.metrics["data/step_trainer_tokens"] == sum(len(replies[n]) for n in (0, 1, 3))
