"""Adapters in place of all parameters."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest
import torch
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.base_model import BaseModel
from artkit.backends.torch.lora import merged, with_adapters
from artkit.backends.torch.lora_settings import LINEAR_LAYERS
from artkit.errors import ConfigurationError

Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Sample = Callable[..., Awaitable[Any]]
Find = Callable[[str], list[Path]]
IDS = torch.randint(0, 100, (2, 16), generator=torch.Generator().manual_seed(0))
PLACES = torch.arange(16)[None]
LORA = LoraSettings(rank=4, alpha=8)


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


@pytest.fixture
def base() -> Any:
    """The micro model."""
    return BaseModel.open("artkit/micro").decoder(seed=0).requires_grad_(False)


def adapted(base: Any, settings: LoraSettings = LORA) -> Any:
    return with_adapters(base, settings, torch.Generator().manual_seed(0))


def drawn(base: Any, settings: LoraSettings = LORA) -> Any:
    """Adapters that change something."""
    decoder = adapted(base, settings)
    with torch.no_grad():
        for value in decoder.adapters.by_name().values():
            value.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return decoder


def test_training_starts_at_the_base_model(base: Any) -> None:
    """Not to the last bit of some other model: the first step's ratios are one."""
    assert torch.equal(adapted(base)(IDS, PLACES), base(IDS, PLACES))


def test_what_is_served_computes_what_is_trained(base: Any) -> None:
    """Merging adds the same adapters in another order."""
    decoder = drawn(base)
    served = merged(base, decoder.adapters)

    torch.testing.assert_close(served(IDS, PLACES), decoder(IDS, PLACES), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(served(IDS, PLACES), base(IDS, PLACES), atol=1e-2)


def test_what_is_served_shares_what_adapters_leave_alone(base: Any) -> None:
    """Embeddings are most of a small model, and several steps are in memory."""
    settings = LoraSettings(target_modules=("q_proj", "v_proj"))
    served = merged(base, drawn(base, settings).adapters).state_dict()

    copied = {name for name, value in base.state_dict().items() if value.data_ptr() != served[name].data_ptr()}
    assert {name.split(".")[-2] for name in copied} == {"q_proj", "k_proj", "v_proj"}


def test_what_is_served_does_not_follow_the_training(base: Any) -> None:
    """Replies in the making keep the weights that they began with."""
    decoder = drawn(base)
    served = merged(base, decoder.adapters)
    before = served(IDS, PLACES)

    with torch.no_grad():
        for value in decoder.adapters.by_name().values():
            value.add_(1.0)

    assert torch.equal(served(IDS, PLACES), before)


def test_only_adapters_are_trained(base: Any) -> None:
    """And backward makes no weight gradients of the base: it costs what forward costs, not twice that."""
    decoder = adapted(base, LoraSettings(rank=1))
    with FlopCounterMode(display=False) as forward:
        loss = decoder.logits(decoder(IDS, PLACES)).logsumexp(-1).sum()
    with FlopCounterMode(display=False) as backward:
        torch.autograd.backward(loss)

    gradients = {name for name, value in decoder.named_parameters() if value.grad is not None}
    assert gradients == {f"adapters.{name}" for name, _ in decoder.adapters.named_parameters()}
    assert all(value.dtype == torch.float32 for value in decoder.adapters.parameters())
    linear = {key: value for key, value in forward.get_flop_counts()["Global"].items() if "attention" not in str(key)}
    counted = {key: value for key, value in backward.get_flop_counts()["Global"].items() if "attention" not in str(key)}
    assert sum(counted.values()) < 1.2 * sum(linear.values())


@pytest.mark.parametrize("layer", LINEAR_LAYERS)
def test_each_linear_layer_can_be_chosen(base: Any, layer: str) -> None:
    """By the name that it has in peft."""
    decoder = adapted(base, LoraSettings(target_modules=(layer,)))

    assert {name.split(".")[-3] for name in decoder.adapters.by_name()} == {layer}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rank": 0}, "rank=0"),
        ({"rank": 1.5}, "rank=1.5"),
        ({"rank": True}, "rank=True"),
        ({"alpha": 0}, "alpha=0"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"target_modules": ()}, "is no list of layers"),
        ({"target_modules": "q_proj"}, "is no list of layers"),
        ({"target_modules": ("q_proj", "lm_head")}, "names 'lm_head'"),
    ],
)
def test_settings_that_cannot_work_are_refused(arguments: dict[str, Any], named: str) -> None:
    """When they are made."""
    with pytest.raises(ConfigurationError, match=named):
        LoraSettings(**arguments)


def test_settings_that_mean_the_same_are_equal() -> None:
    """A run goes on whatever order its layers were named in, and after a round through its manifest."""
    settings = LoraSettings(target_modules=("v_proj", "q_proj", "v_proj"))

    assert settings == LoraSettings(target_modules=("q_proj", "v_proj"))
    assert LoraSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


async def test_a_step_moves_the_adapters_and_serves_them(
    tmp_path: Path, make_model: Any, play: Play, sample: Sample, find: Find
) -> None:
    """The base model is on no disk again; older steps answer as they did, from memory and from disk."""
    async with TorchBackend(tmp_path, lora=LORA) as backend:
        model = make_model()
        await model.register(backend)
        before = await sample(model, "hello", seed=5, tokens=20)
        results = [
            await backend.train(model, await play(model, length, seed=seed, members=8), learning_rate=0.05)
            for seed in range(4)
        ]
        after = await sample(model, "hello", seed=5, tokens=20)
        again = await sample(model, "hello", seed=5, tokens=20, name="agent@0")

    assert all(result.metrics["offpolicy/max_logprob_gap"] < 1e-4 for result in results)
    assert again.logprobs == before.logprobs != after.logprobs
    assert {file.name for file in find("0004")[0].iterdir()} >= {
        "adapter_model.safetensors",
        "adapter_config.json",
        "tokenizer.json",
    }
    assert find("model.safetensors") == []
    first, last = (load_file(find(f"{step}/adapter_model.safetensors")[0]) for step in ("0000", "0004"))
    assert all(name.startswith("base_model.model.model.layers.") for name in first)
    assert all(not torch.equal(first[name], last[name]) for name in first)


async def test_resuming_equals_never_having_stopped(tmp_path: Path, make_model: Any, play: Play, find: Find) -> None:
    """Adapters, optimiser and learning rate schedule alike, bit for bit; the seed of today does not matter."""

    async def steps(name: str, first: int, last: int, seed: int = 0) -> None:
        async with TorchBackend(tmp_path / name, lora=LORA, seed=seed) as backend:
            model = make_model()
            await model.register(backend)
            for step in range(first, last):
                groups = await play(model, length, seed=step)
                await backend.train(model, groups, learning_rate=0.01, warmup_steps=3, weight_decay=0.1)

    await steps("whole", 0, 4)
    await steps("parts", 0, 2)
    await steps("parts", 2, 4, seed=9)

    parts, whole = (load_file(file) for file in find("0004/adapter_model.safetensors"))
    torch.testing.assert_close(parts, whole, atol=0, rtol=0)


async def test_the_kl_penalty_refers_to_the_base_model_or_a_step(tmp_path: Path, make_model: Any, play: Play) -> None:
    """With the adapters off it is the base model; the current step is at no distance from itself."""
    async with TorchBackend(tmp_path, lora=LORA) as backend:
        model = make_model()
        await model.register(backend)
        first = await backend.train(model, await play(model, length), learning_rate=0.05, kl_penalty_coef=0.1)
        second = await backend.train(model, await play(model, length), learning_rate=0.05, kl_penalty_coef=0.1)
        third = await backend.train(model, await play(model, length), kl_penalty_coef=0.1, kl_penalty_reference_step=2)

    assert first.metrics["loss/kl_policy_ref"] == pytest.approx(0.0, abs=1e-5)
    assert second.metrics["loss/kl_policy_ref"] > 1e-3
    assert third.metrics["loss/kl_policy_ref"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("began", "now"), [(LORA, None), (None, LORA), (LORA, LoraSettings(rank=8, alpha=8))], ids=["off", "on", "rank"]
)
async def test_a_run_keeps_the_adapters_that_it_began_with(
    tmp_path: Path, make_model: Any, began: LoraSettings | None, now: LoraSettings | None
) -> None:
    """Others cannot hold what it learnt; the choices are named."""
    async with TorchBackend(tmp_path, lora=began) as backend:
        await make_model().register(backend)

    async with TorchBackend(tmp_path, lora=now) as backend:
        with pytest.raises(ConfigurationError) as caught:
            await make_model().register(backend)

    assert f"lora={now!r}" in caught.value.problem
    assert f"use lora={began!r}" in caught.value.hint


async def test_demonstrations_move_the_adapters_only(tmp_path: Path, make_model: Any, find: Find) -> None:
    """Supervision trains what rewards train."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    async with TorchBackend(tmp_path, lora=LORA) as backend:
        model = make_model()
        await model.register(backend)
        await model.train_sft(
            [art.Trajectory(messages_and_choices=messages, reward=0.0)] * 4, art.TrainSFTConfig(learning_rate=0.01)
        )

    first, last = (load_file(file) for file in find("adapter_model.safetensors"))
    assert all(not torch.equal(first[name], last[name]) for name in first if "lora_B" in name)
