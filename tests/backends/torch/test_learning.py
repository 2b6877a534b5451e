"""Reinforcement learning that learns, and controls that do not."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import art
import pytest
import torch
from safetensors.torch import load_file

from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Find = Callable[[str], list[Path]]
DIGITS = "0123456789"


def digit_first(prompt: str, reply: str) -> float:
    """Whether the reply begins with a digit: 1 time in 10 by chance."""
    del prompt
    return float(reply[:1] in DIGITS and reply != "")


def mean_reward(groups: Sequence[art.TrajectoryGroup]) -> float:
    rewards = [trajectory.reward for group in groups for trajectory in group.trajectories]
    return sum(rewards) / len(rewards)


async def improve(
    model: Model, backend: TorchBackend, play: Play, *, steps: int = 12, shuffle: bool = False, **options: Any
) -> tuple[float, float]:
    """Trains on `digit_first`, and returns the mean reward of fresh replies before and after."""
    before = mean_reward(await play(model, digit_first, prompts=["a"], members=100, seed=500))
    for seed in range(steps):
        groups = await play(model, digit_first, members=24, seed=seed)
        for group in groups if shuffle else []:
            rewards = [trajectory.reward for trajectory in group.trajectories]
            random.Random(seed).shuffle(rewards)
            for trajectory, reward in zip(group.trajectories, rewards, strict=True):
                trajectory.reward = reward
        if any(len({trajectory.reward for trajectory in group.trajectories}) > 1 for group in groups):
            await backend.train(model, groups, **options)
    return before, mean_reward(await play(model, digit_first, prompts=["a"], members=100, seed=501))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss_fn": "ppo"},
        {"importance_sampling_level": "sequence", "scale_rewards": False},
        {"kl_penalty_coef": 0.01, "warmup_steps": 2, "decay_steps": (8, 12), "max_grad_norm": None},
    ],
)
async def test_what_is_rewarded_becomes_frequent(
    model: Model, backend: TorchBackend, play: Play, options: dict[str, Any]
) -> None:
    """By each loss, and with every option at once."""
    before, after = await improve(model, backend, play, learning_rate=5e-3, **options)

    assert before < 0.25
    assert after > 0.7


async def test_shuffled_rewards_teach_nothing(model: Model, backend: TorchBackend, play: Play) -> None:
    """The rise comes from the rewards, not from the training itself."""
    before, after = await improve(model, backend, play, learning_rate=5e-3, shuffle=True)

    assert before < 0.25
    assert after < 0.4


async def test_a_learning_rate_of_zero_leaves_every_bit(
    model: Model, backend: TorchBackend, play: Play, find: Find
) -> None:
    """The control of every experiment."""
    await improve(model, backend, play, steps=2, learning_rate=0.0)

    first, *others = [load_file(path) for path in find("model.safetensors")]
    assert len(others) > 0
    for other in others:
        torch.testing.assert_close(other, first, atol=0, rtol=0)


async def test_the_same_seed_learns_the_same(tmp_path: Path, make_model: Any, play: Play, find: Find) -> None:
    """Bit for bit, on one thread: a run can be told from a lucky one by its seed."""
    files = []
    for name in ("one", "two"):
        async with TorchBackend(tmp_path / name, seed=7) as backend:
            model = make_model()
            await model.register(backend)
            await improve(model, backend, play, steps=4, learning_rate=1e-2)
            files.append(load_file(find(f"{name}/**/model.safetensors")[-1]))

    torch.testing.assert_close(files[0], files[1], atol=0, rtol=0)


async def test_another_seed_begins_elsewhere(tmp_path: Path, make_model: Any, find: Find) -> None:
    """Seeds would prove nothing otherwise."""
    embeddings = []
    for seed in (1, 2):
        async with TorchBackend(tmp_path / str(seed), seed=seed) as backend:
            await make_model().register(backend)
            weights = load_file(find(f"{seed}/**/model.safetensors")[0])
            embeddings.append(weights["model.embed_tokens.weight"])

    assert not torch.equal(*embeddings)


async def test_a_kl_penalty_holds_the_policy_near_its_reference(tmp_path: Path, make_model: Any, play: Play) -> None:
    """And reports how far it is: nothing at first, less than without the penalty later."""
    distances = {}
    for coefficient in (1e-6, 0.5):
        async with TorchBackend(tmp_path / str(coefficient)) as backend:
            model = make_model()
            await model.register(backend)
            found = []
            for seed in range(5):
                groups = await play(model, digit_first, members=24, seed=seed)
                result = await backend.train(
                    model, groups, learning_rate=5e-3, kl_penalty_coef=coefficient, kl_penalty_reference_step=0
                )
                found.append(result.metrics["loss/kl_policy_ref"])
            distances[coefficient] = found

    assert distances[0.5][0] == pytest.approx(0.0, abs=1e-5)
    assert distances[1e-6][-1] > 2 * abs(distances[0.5][-1])
