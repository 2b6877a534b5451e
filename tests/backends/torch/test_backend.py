"""`TorchBackend` through ART's own objects."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest
import torch

from artkit.backends.torch import TorchBackend
from artkit.errors import BackendError, CheckpointError, ConfigurationError
from artkit.transport import OpenAISamplingClient, sampling_session

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


async def test_logs_go_beside_the_checkpoints(model: Model, tmp_path: Path) -> None:
    """As under LocalBackend, whatever base path the model was made with."""
    assert model.base_path == str(tmp_path)
    assert (Path(model._get_output_dir()) / "checkpoints" / "0000").is_dir()


async def test_registering_twice_changes_nothing(model: Model, backend: TorchBackend, make_model: Any) -> None:
    """A notebook cell may be run again, with the same object or an equal one."""
    before = (model.inference_base_url, model.inference_api_key, model.get_inference_name())
    twin = make_model()

    await model.register(backend)
    await twin.register(backend)

    assert before == (model.inference_base_url, model.inference_api_key, model.get_inference_name())
    assert before == (twin.inference_base_url, twin.inference_api_key, twin.get_inference_name())


async def test_one_run_is_of_one_base_model(model: Model, backend: TorchBackend, make_model: Any) -> None:
    """A second object that says otherwise would be served something else than it asks for."""
    with pytest.raises(ConfigurationError, match="registered already"):
        await make_model(base_model="elsewhere").register(backend)


async def test_two_runs_under_one_name_are_refused(backend: TorchBackend, make_model: Any) -> None:
    """The endpoint could not tell them apart."""
    first, second = make_model(run="one"), make_model(run="two")
    second.project = "elsewhere"
    await first.register(backend)

    with pytest.raises(ConfigurationError, match="named 'agent'"):
        await second.register(backend)


async def test_a_model_that_is_not_trained_only_gets_its_directory(backend: TorchBackend, tmp_path: Path) -> None:
    """A prompted model logs beside the trained one."""
    judge = art.Model(
        name="judge",
        project="tests",
        inference_model_name="gpt",
        inference_base_url="http://127.0.0.1:9/v1",
        inference_api_key="none",
    )
    await judge.register(backend)

    assert (tmp_path / "tests" / "models" / "judge").is_dir()
    assert (await judge.get_step(), judge.get_inference_name()) == (0, "gpt")
    async with sampling_session(judge) as client:
        assert isinstance(client, OpenAISamplingClient)


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


async def test_a_model_is_open_in_one_backend_at_a_time(model: Model, make_model: Any, tmp_path: Path) -> None:
    """Two that write the same steps would mix their runs."""
    async with TorchBackend(tmp_path) as other:
        with pytest.raises(BackendError, match="in use by another"):
            await make_model().register(other)


async def test_closing_lets_go_of_the_model(tmp_path: Path, make_model: Any) -> None:
    """Closing twice is harmless, and afterwards everything says that it is closed."""
    first = TorchBackend(tmp_path)
    model = make_model()
    await model.register(first)
    await first.close()
    await first.close()

    with pytest.raises(BackendError, match="closed"):
        await model.get_step()
    async with TorchBackend(tmp_path) as second:
        await make_model().register(second)


async def test_registering_opens_a_closed_backend_again(tmp_path: Path, make_model: Any) -> None:
    """A finished run can be evaluated, or gone on with, by the same objects."""
    backend = TorchBackend(tmp_path)
    model = make_model()
    await model.register(backend)
    await model.openai_client().models.list()
    await backend.close()

    async with backend:
        await model.register(backend)
        listed = await model.openai_client().models.list()
        await model.openai_client().close()

        assert (await model.get_step(), bool(listed.data)) == (0, True)


async def test_deleting_spares_the_current_and_the_leased_step(
    model: Model, backend: TorchBackend, play: Play, sample: Sample
) -> None:
    """Whatever the list says."""
    for seed in range(4):
        await backend.train(model, await play(model, vowels, seed=seed))

    async with backend.exact_adapter_lease(model, 2):
        inside = model.get_inference_name()
        await backend._delete_checkpoint_files(model, [1])
        assert await backend.checkpoint_steps(model) == {1, 2, 4}
    await backend._delete_checkpoint_files(model, [])

    assert (inside, model.get_inference_name()) == ("agent@2", "agent@4")
    assert await backend.checkpoint_steps(model) == {4}
    with pytest.raises(Exception, match="does not exist"):
        await sample(model, "hello", name="agent@2")


async def test_a_lease_of_a_step_that_is_gone_is_refused(model: Model, backend: TorchBackend) -> None:
    """With those that there are."""
    with pytest.raises(CheckpointError, match=r"step 3 .*\[0\]"):
        async with backend.exact_adapter_lease(model, 3):
            pass


async def test_a_lease_pins_the_name_for_its_own_task_only(model: Model, backend: TorchBackend, play: Play) -> None:
    """A validation of step 0 must not turn the rollouts beside it back."""
    await backend.train(model, await play(model, vowels))

    async def validate() -> str:
        async with backend.exact_adapter_lease(model, 0):
            await asyncio.sleep(0)
            return model.get_inference_name()

    leased = asyncio.ensure_future(validate())
    await asyncio.sleep(0)

    assert (model.get_inference_name(), await leased) == ("agent@1", "agent@0")


async def test_groups_that_teach_nothing_are_an_error(model: Model, backend: TorchBackend, play: Play) -> None:
    """A step that changes nothing would look like one that did."""
    with pytest.raises(BackendError, match="none of the 2 groups"):
        await backend.train(model, await play(model, lambda prompt, reply: 1.0))

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
    torch.testing.assert_close(dict(backend._policies[("tests", _storage(model))].learner.decoder.state_dict()), before)
    assert (await backend.train(model, good)).step == 1


async def test_a_checkpoint_that_cannot_be_written_takes_the_update_back(
    model: Model, backend: TorchBackend, play: Play, tmp_path: Path, find: Find
) -> None:
    """Memory and disk must not disagree on what the current step is."""
    groups = await play(model, vowels)
    (checkpoints,) = find("checkpoints")
    shutil.copytree(checkpoints / "0000", tmp_path / "kept")
    blocker = checkpoints / ".0001.partial"
    blocker.write_text("a file where the directory has to be")

    with pytest.raises(BackendError, match="step 1 cannot be written"):
        await backend.train(model, groups, learning_rate=0.1)
    blocker.unlink()
    result = await backend.train(model, groups, learning_rate=0.0)

    assert result.step == 1
    torch.testing.assert_close(weights(checkpoints), weights(tmp_path / "kept"), atol=0, rtol=0)


async def test_one_call_trains_a_model_at_a_time(model: Model, backend: TorchBackend, play: Play) -> None:
    """Two updates from one step would each undo the other's."""
    groups = await play(model, vowels)

    first, second = await asyncio.gather(
        backend.train(model, groups), backend.train(model, groups), return_exceptions=True
    )

    assert first.step == 1
    assert isinstance(second, BackendError)


async def test_an_unregistered_model_is_refused(backend: TorchBackend, make_model: Any) -> None:
    """With what to do about it."""
    with pytest.raises(BackendError, match=r"register\(backend\)"):
        await backend._get_step(make_model())


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
    ],
)
async def test_options_that_cannot_work_are_refused(model: Model, backend: TorchBackend, wrong: dict[str, Any]) -> None:
    """Each by its name."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        await backend.train(model, [], **wrong)


@pytest.mark.parametrize(
    ("arguments", "named"), [({"dtype": "bfloat16"}, "dtype"), ({"device": "abacus"}, "device='abacus'")]
)
def test_what_the_backend_cannot_be_is_refused(tmp_path: Path, arguments: dict[str, str], named: str) -> None:
    """Before a thread is started."""
    with pytest.raises(ConfigurationError, match=named):
        TorchBackend(tmp_path, **arguments)


@pytest.mark.parametrize("base_model", ["Qwen/Qwen3-0.6B", "artkit/macro"])
async def test_a_base_model_that_is_not_here_is_refused(
    backend: TorchBackend, make_model: Any, base_model: str
) -> None:
    """Nothing is downloaded behind the user's back."""
    with pytest.raises(ConfigurationError, match="artkit/micro"):
        await make_model(base_model=base_model).register(backend)


def _storage(model: Model) -> str:
    return getattr(model, "run_name", None) or model.name
