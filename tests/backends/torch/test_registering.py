"""Opening models, and letting go of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art
import pytest

from artkit import make_trainable_model
from artkit.backends import usage_example
from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.errors import BackendError, ConfigurationError
from artkit.transport import OpenAISamplingClient, sampling_session

Model = art.TrainableModel[Any, Any]
Until = Callable[[Callable[[], bool]], Awaitable[None]]


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


async def test_an_unregistered_model_is_refused(backend: TorchBackend, make_model: Any) -> None:
    """With what to do about it."""
    with pytest.raises(BackendError, match=r"register\(backend\)"):
        await backend._get_step(make_model())


@pytest.mark.parametrize("base_model", ["Qwen/Qwen3-0.6B", "artkit/macro"])
async def test_a_base_model_that_is_not_here_is_refused(
    backend: TorchBackend, make_model: Any, base_model: str
) -> None:
    """Nothing is downloaded behind the user's back."""
    with pytest.raises(ConfigurationError, match="artkit/micro"):
        await make_model(base_model=base_model).register(backend)


async def test_models_that_register_at_once_are_opened_once(backend: TorchBackend, make_model: Any) -> None:
    """Two parts of a program may each register the model that they share."""
    models = [make_model(), make_model(), make_model(name="other", run="other")]
    await asyncio.gather(*(model.register(backend) for model in models))

    assert [model.get_inference_name() for model in models] == ["agent@0", "agent@0", "other@0"]


def test_a_model_may_be_registered_from_one_event_loop_after_the_other(tmp_path: Path, make_model: Any) -> None:
    """Each `asyncio.run` of a notebook or a script is a new one."""
    backend = TorchBackend(tmp_path)

    async def register() -> None:
        await asyncio.gather(*(make_model().register(backend) for _ in range(2)))

    asyncio.run(register())
    asyncio.run(register())
    asyncio.run(backend.close())


async def cancel_while_opening(model: Model, backend: TorchBackend, until: Until) -> None:
    """Cancel a registration whose thread has taken the directory already."""
    registration = asyncio.ensure_future(model.register(backend))
    await until(lambda: any(backend.path.rglob(".torch-backend.lock")))
    registration.cancel()
    with pytest.raises(asyncio.CancelledError):
        await registration


async def test_a_registration_that_was_cancelled_may_be_repeated(
    backend: TorchBackend, make_model: Any, until: Until
) -> None:
    """After Ctrl-C a cell is run again."""
    await cancel_while_opening(make_model(), backend, until)
    model = make_model()

    await model.register(backend)

    assert await model.get_step() == 0


async def test_a_registration_that_was_cancelled_lets_go_of_the_directory(
    tmp_path: Path, make_model: Any, until: Until
) -> None:
    """Nobody would close it."""
    async with TorchBackend(tmp_path) as first:
        await cancel_while_opening(make_model(), first, until)
    model = make_model()

    async with TorchBackend(tmp_path) as second:
        await model.register(second)

        assert await model.get_step() == 0


async def test_every_model_finds_an_endpoint_that_moved(tmp_path: Path, make_model: Any) -> None:
    """Not only the one whose registration opened the backend again."""
    backend = TorchBackend(tmp_path)
    models = [make_model(), make_model(name="other", run="other")]
    for _ in range(2):
        for model in models:
            await model.register(backend)
        for model in models:
            assert {entry.id async for entry in model.openai_client().models.list()} >= {"agent@0", "other@0"}
        await backend.close()
    for model in models:
        await model.openai_client().close()


@pytest.mark.art_keeps_clients
async def test_a_client_is_kept_while_its_endpoint_stays(model: Model, backend: TorchBackend) -> None:
    """Requests in flight must not lose their connections because a cell was run again."""
    before = model.openai_client()
    await model.register(backend)

    assert model.openai_client() is before
    assert (await before.models.list()).data
    await before.close()


async def test_a_usage_example_opens_what_was_trained_with_adapters(tmp_path: Path) -> None:
    """Opened without them, or with others, the checkpoints would be refused."""
    lora = LoraSettings(rank=4, target_modules=("q_proj", "v_proj"))
    model = make_trainable_model(name="agent", project="p", base_model="artkit/micro", base_path=str(tmp_path))
    async with TorchBackend(tmp_path, "cpu", "bfloat16", lora=lora, seed=3) as backend:
        await model.register(backend)
        script = usage_example(model, backend)

    names: dict[str, Any] = {}
    exec(next(line for line in script.splitlines() if line.startswith("from artkit.backends")), names)
    made = next(line for line in script.splitlines() if "backend = " in line).partition("= ")[2]
    assert made == f"TorchBackend(path={str(tmp_path)!r}, dtype='bfloat16', lora={lora!r}, seed=3)"
    async with eval(made, names) as again:
        await model.register(again)
