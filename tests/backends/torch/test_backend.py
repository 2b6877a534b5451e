"""`TorchBackend` through ART's own objects."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest
import torch

from artkit.backends.torch import TorchBackend
from artkit.errors import BackendError, ConfigurationError

Model = art.TrainableModel[Any, Any]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Sample = Callable[..., Awaitable[Any]]
Find = Callable[[str], list[Path]]


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of the newest checkpoint under `path`."""
    from safetensors.torch import load_file

    return load_file(max(path.rglob("model.safetensors"), key=lambda file: file.parent.name))


def vowels(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return sum(reply.count(vowel) for vowel in "aeiouAEIOU") + 0.01 * len(reply) + 0.001 * sum(map(ord, reply))


async def test_a_registered_model_has_its_first_checkpoint(model: Model, tmp_path: Path) -> None:
    """Whoever resumes, prunes or compares finds step 0 on disk."""
    directory = next((tmp_path / "tests" / "models").iterdir())

    assert await model.get_step() == 0
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {
        file.name for file in (directory / "checkpoints" / "0000").iterdir()
    }


def test_the_path_is_known_before_a_model_is_registered(backend: TorchBackend, tmp_path: Path) -> None:
    """Whoever plans a run asks where its files will be."""
    assert backend.path == tmp_path


async def test_logs_go_beside_the_checkpoints(model: Model, tmp_path: Path) -> None:
    """As under LocalBackend, whatever base path the model was made with."""
    assert model.base_path == str(tmp_path)
    assert (Path(model._get_output_dir()) / "checkpoints" / "0000").is_dir()


async def test_a_training_step_moves_the_weights_and_serves_them(
    model: Model, backend: TorchBackend, play: Play
) -> None:
    """The new step is on disk, under its name, and answers."""
    groups = await play(model, vowels)
    result = await backend.train(model, groups, learning_rate=1e-3)

    assert (result.step, await model.get_step(), model.get_inference_name()) == (1, 1, "agent@1")
    assert await backend.checkpoint_steps(model) == {0, 1}
    assert result.metrics["loss/grad_norm"] > 0
    assert result.metrics["data/step_trainer_tokens"] == sum(
        len(t.messages_and_choices[1].model_extra["token_ids"]) for g in groups for t in g.trajectories
    )


async def test_sampling_and_training_agree_on_the_first_update(model: Model, backend: TorchBackend, play: Play) -> None:
    """Else every importance ratio is wrong."""
    result = await backend.train(model, await play(model, vowels, members=8))

    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4
    assert result.metrics["loss/importance_ratio_mean"] == pytest.approx(1.0, abs=1e-4)


async def test_an_older_step_is_served_as_it_was(
    model: Model, backend: TorchBackend, play: Play, sample: Sample
) -> None:
    """From memory, and from disk after a restart."""
    before = await sample(model, "hello", seed=5, tokens=20)
    for seed in range(4):
        await backend.train(model, await play(model, vowels, seed=seed), learning_rate=0.05)

    after = await sample(model, "hello", seed=5, tokens=20)
    again = await sample(model, "hello", seed=5, tokens=20, name="agent@0")

    assert again.message.content == before.message.content != after.message.content
    assert again.logprobs == before.logprobs


async def test_a_reply_keeps_the_weights_that_it_began_with(
    model: Model, backend: TorchBackend, play: Play, sample: Sample
) -> None:
    """Never half of one step and half of the next."""
    groups = await play(model, vowels)
    alone = await sample(model, "hello", seed=5, tokens=400, name="agent")

    in_flight = asyncio.ensure_future(sample(model, "hello", seed=5, tokens=400, name="agent"))
    await asyncio.sleep(0)
    await backend.train(model, groups, learning_rate=0.1)

    assert (await in_flight).model_extra["token_ids"] == alone.model_extra["token_ids"]


async def test_resuming_equals_never_having_stopped(tmp_path: Path, make_model: Any, play: Play) -> None:
    """Weights, optimiser and learning rate schedule alike, bit for bit."""
    options = {"learning_rate": 0.01, "warmup_steps": 3, "weight_decay": 0.1}

    async def steps(path: Path, first: int, last: int) -> None:
        async with TorchBackend(path) as backend:
            model = make_model()
            await model.register(backend)
            for seed in range(first, last):
                await backend.train(model, await play(model, vowels, seed=seed), **options)

    await steps(tmp_path / "whole", 0, 4)
    await steps(tmp_path / "parts", 0, 2)
    await steps(tmp_path / "parts", 2, 4)

    torch.testing.assert_close(weights(tmp_path / "parts"), weights(tmp_path / "whole"), atol=0, rtol=0)


async def test_a_damaged_newest_checkpoint_is_not_resumed_from(
    tmp_path: Path, make_model: Any, play: Play, find: Find
) -> None:
    """The one before it is, and the run comes by the damaged step again."""
    async with TorchBackend(tmp_path) as backend:
        model = make_model()
        await model.register(backend)
        await backend.train(model, await play(model, vowels))
        await backend.train(model, await play(model, vowels))
    (file,) = find("0002/model.safetensors")
    file.write_bytes(file.read_bytes()[:1000])

    async with TorchBackend(tmp_path) as backend:
        model = make_model()
        await model.register(backend)
        resumed_at = await model.get_step()
        result = await backend.train(model, await play(model, vowels))

    assert (resumed_at, result.step) == (1, 2)


async def test_a_directory_of_another_base_model_is_refused(tmp_path: Path, make_model: Any, find: Find) -> None:
    """Going on from other weights than asked for would be silent."""
    async with TorchBackend(tmp_path) as backend:
        await make_model().register(backend)
    (manifest,) = find("checkpoint.json")
    manifest.write_text(manifest.read_text().replace("artkit/micro", "another"))

    async with TorchBackend(tmp_path) as backend:
        with pytest.raises(ConfigurationError, match="'another'"):
            await make_model().register(backend)


async def test_groups_that_teach_nothing_make_a_step_that_changes_nothing(
    model: Model, backend: TorchBackend, play: Play, find: Find
) -> None:
    """As in ART's LocalBackend: steps go on counting batches, so no batch is repeated after a restart."""
    result = await backend.train(model, await play(model, lambda prompt, reply: 1.0))

    metrics = {name: value for name, value in result.metrics.items() if name.startswith("data/")}
    assert metrics == {
        "data/step_num_groups_submitted": 2.0,
        "data/step_num_groups_trainable": 0.0,
        "data/step_num_gradient_steps": 0.0,
        "data/step_trainer_tokens": 0.0,
    }
    assert (result.step, await model.get_step(), model.get_inference_name()) == (1, 1, "agent@1")
    before, after = find("model.safetensors")
    assert before.read_bytes() == after.read_bytes()


async def test_a_step_that_changes_nothing_leaves_the_optimiser(tmp_path: Path, make_model: Any, play: Play) -> None:
    """Momentum and warm-up go on as though the batch had not been."""

    async def steps(path: Path, *, between: bool) -> None:
        async with TorchBackend(path) as backend:
            model = make_model()
            await model.register(backend)
            groups = [await play(model, vowels, seed=seed) for seed in range(2)]
            equal = await play(model, lambda prompt, reply: 1.0)
            for batch in [groups[0], *([equal] if between else []), groups[1]]:
                await backend.train(model, batch, learning_rate=0.01, warmup_steps=3)

    await steps(tmp_path / "without", between=False)
    await steps(tmp_path / "with", between=True)

    torch.testing.assert_close(weights(tmp_path / "with"), weights(tmp_path / "without"), atol=0, rtol=0)


async def test_a_member_without_logprobs_is_left_out(model: Model, backend: TorchBackend, play: Play) -> None:
    """Its siblings still teach, against a mean that it is part of."""
    (group,) = await play(model, vowels, prompts=("a",))
    group.trajectories[0].messages_and_choices[1].logprobs = None

    result = await backend.train(model, [group])

    assert result.metrics["data/step_trainer_tokens"] == sum(
        len(trajectory.messages_and_choices[1].model_extra["token_ids"]) for trajectory in group.trajectories[1:]
    )


async def test_groups_that_could_never_teach_are_an_error(model: Model, backend: TorchBackend, play: Play) -> None:
    """A rollout that forgets the logprobs would train for days and change nothing."""
    groups = await play(model, vowels)
    for group in groups:
        for trajectory in group.trajectories:
            trajectory.messages_and_choices[1].logprobs = None

    with pytest.raises(BackendError, match=r"none of the 2 groups .*no choice has logprobs"):
        await backend.train(model, groups)
    assert await backend.checkpoint_steps(model) == {0}


@pytest.mark.parametrize("reward", [math.nan, math.inf])
async def test_a_reward_that_is_not_finite_is_an_error(
    model: Model, backend: TorchBackend, play: Play, reward: float
) -> None:
    """It would poison its whole group."""
    groups = await play(model, vowels)
    groups[0].trajectories[1].reward = reward

    with pytest.raises(BackendError, match=f"trajectory 1 .*{reward}"):
        await backend.train(model, groups)


async def test_an_update_that_is_not_finite_leaves_the_weights(
    model: Model, backend: TorchBackend, play: Play, tmp_path: Path
) -> None:
    """And the next one works."""
    good = await play(model, vowels)
    bad = await play(model, vowels)
    for trajectory in bad[0].trajectories:
        trajectory.reward *= 1e38
    before = weights(tmp_path)

    with pytest.raises(BackendError, match="gradient norm"):
        await backend.train(model, bad, scale_rewards=False)

    assert await backend.checkpoint_steps(model) == {0}
    torch.testing.assert_close(dict(backend._policy(model).learner.weights.decoder.state_dict()), before)
    assert (await backend.train(model, good)).step == 1


async def test_one_call_trains_a_model_at_a_time(model: Model, backend: TorchBackend, play: Play) -> None:
    """Two updates from one step would each undo the other's."""
    groups = await play(model, vowels)

    first, second = await asyncio.gather(
        backend.train(model, groups), backend.train(model, groups), return_exceptions=True
    )

    assert first.step == 1
    assert isinstance(second, BackendError)


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": -1.0},
        {"learning_rate": math.nan},
        {"loss_fn": "dpo"},
        {"max_grad_norm": 0.0},
        {"warmup_steps": -1},
        {"decay_steps": (5, 5)},
        {"kl_penalty_coef": -0.1},
        {"learning_rate": "fast"},
        {"loss_fn": ["ppo"]},
        {"epsilon": "x"},
        {"max_grad_norm": "x"},
        {"scale_rewards": "no"},
        {"weight_decay": None},
        {"warmup_steps": 0.5},
        {"decay_steps": (5, 1)},
        {"decay_steps": 5},
        {"decay_steps": ("a", "b")},
        {"kl_penalty_reference_step": -1},
    ],
)
async def test_options_that_cannot_work_are_refused(model: Model, backend: TorchBackend, wrong: dict[str, Any]) -> None:
    """Each by its name, of whatever type it is, and by whoever asks before there are rollouts."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        await backend.train(model, [], **wrong)
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        backend.check_train_options(wrong)


def test_every_option_of_train_can_be_checked_beforehand(backend: TorchBackend) -> None:
    """One that was forgotten would be refused before every run."""
    parameters = inspect.signature(backend.train).parameters.values()

    backend.check_train_options({p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY})
    backend.check_train_options({"decay_steps": [1, 5], "max_grad_norm": math.inf, "learning_rate": 0})


def test_an_option_that_train_does_not_take_is_refused_with_those_it_takes(backend: TorchBackend) -> None:
    """A check that overlooks a misspelt name promises too much."""
    with pytest.raises(ConfigurationError, match=r"'warmup' is no option of train .*warmup_steps"):
        backend.check_train_options({"warmup": 3})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"lora": {"rank": 8}}, "is no LoraSettings"),
        ({"micro_batch_tokens": 0}, "micro_batch_tokens=0"),
        ({"micro_batch_tokens": 2.5}, "micro_batch_tokens=2.5"),
    ],
)
def test_what_the_backend_cannot_be_is_refused(tmp_path: Path, arguments: dict[str, Any], named: str) -> None:
    """Before a thread is started."""
    with pytest.raises(ConfigurationError, match=named):
        TorchBackend(tmp_path, **arguments)
