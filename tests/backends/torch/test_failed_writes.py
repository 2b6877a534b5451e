"""Training that cannot save what it learnt."""

from __future__ import annotations

import errno
import resource
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import art
import openai
import pytest

from artkit.errors import BackendError, CheckpointError

if TYPE_CHECKING:
    from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Find = Callable[[str], list[Path]]


def length(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """As on a disk that is full: what is written beyond it fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def saved(model: Model, find: Find) -> Callable[[int], list[bytes]]:
    """The weights and the optimiser's state of a step, as they are on disk."""
    del model

    def read(step: int) -> list[bytes]:
        files = [
            file for name in ("model.safetensors", "trainer_state.safetensors") for file in find(f"{step:04d}/{name}")
        ]
        assert len(files) == 2
        return [file.read_bytes() for file in files]

    return read


@pytest.mark.parametrize("size_bytes", [0, 100_000, 800_000], ids=["nothing fits", "no weights", "no optimiser"])
async def test_a_full_disk_takes_the_update_back(
    model: Model, backend: TorchBackend, play: Play, saved: Callable[[int], list[bytes]], size_bytes: int
) -> None:
    """Memory and disk must not disagree on what the current step is, and a full disk can be told from other failures."""
    learning, equal = await play(model, length), await play(model, lambda prompt, reply: 1.0)

    with pytest.raises(BackendError, match="step 1 cannot be written") as caught, files_of_at_most(size_bytes):
        await backend.train(model, learning, learning_rate=0.1)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert (await model.get_step(), await backend.checkpoint_steps(model)) == (0, {0})

    await backend.train(model, equal)
    assert saved(1) == saved(0)


async def test_an_update_that_cannot_be_taken_back_at_once_is_taken_back_before_the_next(
    model: Model, backend: TorchBackend, play: Play, saved: Callable[[int], list[bytes]], find: Find
) -> None:
    """Nobody served the weights in between: nothing may be trained from them, and the full disk is the cause to tell."""
    learning, equal = await play(model, length), await play(model, lambda prompt, reply: 1.0)
    (file,) = find("0000/trainer_state.safetensors")
    state = file.read_bytes()

    file.write_bytes(b"damaged")
    with (
        pytest.raises(BackendError, match="and going back failed") as caught,
        files_of_at_most(0),
    ):
        await backend.train(model, learning, learning_rate=0.1)
    with pytest.raises(CheckpointError, match="0000' cannot be read"):
        await backend.train(model, equal)
    file.write_bytes(state)
    await backend.train(model, equal)

    assert isinstance(caught.value.__cause__, OSError)
    assert saved(1) == saved(0)


async def test_a_demonstration_that_cannot_be_saved_is_taken_back(
    model: Model, backend: TorchBackend, play: Play, saved: Callable[[int], list[bytes]]
) -> None:
    """By supervision as by reward."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    demonstrations = [art.Trajectory(messages_and_choices=messages, reward=0.0)] * 4
    equal = await play(model, lambda prompt, reply: 1.0)

    async def learn() -> None:
        async for _ in backend._train_sft(model, demonstrations, art.TrainSFTConfig(learning_rate=0.1), {}):
            pass

    with pytest.raises(BackendError, match="step 1 cannot be written"), files_of_at_most(100_000):
        await learn()

    await backend.train(model, equal)
    assert saved(1) == saved(0)


async def test_a_step_that_somebody_else_wrote_takes_the_update_back(
    model: Model, backend: TorchBackend, play: Play, saved: Callable[[int], list[bytes]], find: Find
) -> None:
    """Whatever keeps a checkpoint from being written."""
    learning, equal = await play(model, length), await play(model, lambda prompt, reply: 1.0)
    (first,) = find("0000")
    shutil.copytree(first, first.with_name("0001"))

    with pytest.raises(CheckpointError, match="step 1 exists"):
        await backend.train(model, learning, learning_rate=0.1)
    shutil.rmtree(first.with_name("0001"))

    await backend.train(model, equal)
    assert saved(1) == saved(0)


async def test_a_directory_that_cannot_be_made_takes_the_update_back(
    model: Model, backend: TorchBackend, play: Play, saved: Callable[[int], list[bytes]], find: Find
) -> None:
    """Before anything is written."""
    learning, equal = await play(model, length), await play(model, lambda prompt, reply: 1.0)
    blocker = find("checkpoints")[0] / ".0001.partial"
    blocker.write_text("a file where the directory has to be")

    with pytest.raises(BackendError, match="step 1 cannot be written"):
        await backend.train(model, learning, learning_rate=0.1)
    blocker.unlink()

    await backend.train(model, equal)
    assert saved(1) == saved(0)


@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.safetensors"])
async def test_a_checkpoint_whose_bytes_are_damaged_is_named(
    model: Model, backend: TorchBackend, play: Play, find: Find, name: str
) -> None:
    """After a crash of the machine a file may have its size and not its bytes: opening it must say which it is."""
    await backend.train(model, await play(model, lambda prompt, reply: 1.0))
    (file,) = find(f"0001/{name}")
    file.write_bytes(bytes(file.stat().st_size))
    await backend.close()

    with pytest.raises(CheckpointError, match="0001' cannot be read"):
        await model.register(backend)


async def test_a_step_whose_bytes_are_damaged_is_refused_by_name(
    model: Model, backend: TorchBackend, play: Play, find: Find
) -> None:
    """To whoever asks for it, in the words of the endpoint."""
    for _ in range(4):  # beyond what is kept in memory
        await backend.train(model, await play(model, lambda prompt, reply: 1.0))
    (file,) = find("0001/model.safetensors")
    file.write_bytes(bytes(file.stat().st_size))

    with pytest.raises(openai.InternalServerError, match="0001' cannot be read"):
        await model.openai_client().chat.completions.create(
            model=model.get_inference_name(1), messages=[{"role": "user", "content": "hi"}], max_tokens=1
        )
    await model.openai_client().close()
