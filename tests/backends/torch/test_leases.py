"""Steps that are in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import art
import pytest

from artkit.errors import CheckpointError

if TYPE_CHECKING:
    from artkit.backends.torch import TorchBackend

Model = art.TrainableModel[Any, Any]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Sample = Callable[..., Awaitable[Any]]


def characters(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


async def test_deleting_spares_the_current_and_the_leased_step(
    model: Model, backend: TorchBackend, play: Play, sample: Sample
) -> None:
    """Whatever the list says."""
    for seed in range(4):
        await backend.train(model, await play(model, characters, seed=seed))

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
    await backend.train(model, await play(model, characters))

    async def validate() -> str:
        async with backend.exact_adapter_lease(model, 0):
            await asyncio.sleep(0)
            return model.get_inference_name()

    leased = asyncio.ensure_future(validate())
    await asyncio.sleep(0)

    assert (model.get_inference_name(), await leased) == ("agent@1", "agent@0")
