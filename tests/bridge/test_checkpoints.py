"""Which checkpoints of a model exist, and deleting them, whatever the backend."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import art
import pytest

from artkit.bridge import (
    backend_of,
    checkpoint_dir,
    delete_checkpoint_files,
    make_trainable_model,
    saved_steps,
    served_steps,
    storage_dir,
)
from artkit.errors import CheckpointError
from artkit.testing import DiaryBackend


def make(base_path: Path) -> art.TrainableModel[Any, Any]:
    return make_trainable_model(name="agent", project="demo", base_model="none", base_path=str(base_path))


class ListingBackend:
    """A backend that can say which checkpoints it has."""

    def __init__(self, steps: Iterable[int]) -> None:
        self._steps = steps

    def checkpoint_steps(self, model: Any) -> Iterable[int]:
        return self._steps


class AsyncListingBackend(ListingBackend):
    async def checkpoint_steps(self, model: Any) -> Iterable[int]:  # type: ignore[override]
        return self._steps


@pytest.mark.parametrize("kind", [ListingBackend, AsyncListingBackend])
async def test_a_backend_that_can_list_is_asked(kind: type[ListingBackend], tmp_path: Path) -> None:
    """It knows best, and it may answer at once or later."""
    assert await saved_steps(kind([3, 1, 1]), make(tmp_path)) == frozenset({1, 3})


@pytest.fixture
def local_backend(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """ART's LocalBackend needs torch to be imported; what is looked at is its name, its path and ART's layout."""

    class LocalBackend:
        def __init__(self, path: Path) -> None:
            self._path = str(path)

    module = ModuleType("art.local.backend")
    module.LocalBackend = LocalBackend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "art.local.backend", module)
    return LocalBackend


async def test_the_local_backend_is_listed_from_its_own_directory(local_backend: Any, tmp_path: Path) -> None:
    """Its path need not be the model's base path; what is no checkpoint is passed over."""
    model = make(tmp_path / "logs")
    directory = tmp_path / "art" / "demo" / "models" / "agent" / "checkpoints"
    for name in ("0000", "0012", "aside"):
        (directory / name).mkdir(parents=True)
    (directory / "0013").write_text("a file, not a checkpoint")

    assert await saved_steps(local_backend(tmp_path / "art"), model) == frozenset({0, 12})


async def test_a_local_backend_without_checkpoints_has_none(local_backend: Any, tmp_path: Path) -> None:
    """None at all is an answer; "cannot say" is another."""
    assert await saved_steps(local_backend(tmp_path), make(tmp_path)) == frozenset()


async def test_the_serverless_backend_is_listed_by_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints are nowhere on this machine."""
    monkeypatch.setenv("WANDB_API_KEY", "not-a-key")
    model, backend = make(tmp_path), art.ServerlessBackend()
    asked: list[str] = []

    async def listing(*, model_id: str) -> AsyncIterator[Any]:
        asked.append(model_id)
        for step in (0, 4):
            yield SimpleNamespace(step=step)

    service = SimpleNamespace(models=SimpleNamespace(checkpoints=SimpleNamespace(list=listing)))
    client, backend._client = backend._client, service  # type: ignore[assignment]
    await client.close()
    before = await saved_steps(backend, model)
    model.id = "model-7"

    assert (before, await saved_steps(backend, model), asked) == (None, frozenset({0, 4}), ["model-7"])


async def test_a_backend_that_cannot_list_gives_no_answer(tmp_path: Path) -> None:
    """An empty set would say that everything is gone, and pruning would go wrong on it."""
    assert await saved_steps(object(), make(tmp_path)) is None


async def test_without_a_backend_the_directory_of_the_model_is_listed(tmp_path: Path) -> None:
    """A finished run is looked at without starting anything."""
    model = make(tmp_path)
    directory = storage_dir(model) / "checkpoints" / "0012"
    before = await saved_steps(None, model)
    directory.mkdir(parents=True)

    assert (before, await saved_steps(None, model)) == (frozenset(), frozenset({12}))
    assert (checkpoint_dir(None, model, 12), checkpoint_dir(None, model, 1)) == (directory, None)


async def test_the_step_that_the_inference_name_means_is_served(tmp_path: Path) -> None:
    """Inside a lease it is an older one; a name without a step means the current one, which is kept anyway."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    async with backend.exact_adapter_lease(model, 3):
        leased = served_steps(backend, model)

    assert (leased, served_steps(backend, model)) == (frozenset({3}), frozenset())


async def test_only_the_steps_to_keep_are_left(tmp_path: Path) -> None:
    """Deleting goes through the backend, never through model.delete_checkpoints()."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    for _ in range(3):
        await backend.train(model, [])
    await delete_checkpoint_files(backend, model, frozenset({3, 1}))

    assert (await saved_steps(backend, model), backend.calls("delete_checkpoints")) == (
        frozenset({1, 3}),
        ({"model": "agent", "keep": [1, 3]},),
    )


async def test_keeping_nothing_is_refused(tmp_path: Path) -> None:
    """No policy means it, and it cannot be undone."""
    model, backend = make(tmp_path), DiaryBackend()
    await model.register(backend)
    with pytest.raises(CheckpointError):
        await delete_checkpoint_files(backend, model, frozenset())

    assert await saved_steps(backend, model) == frozenset({0})


async def test_a_model_knows_its_backend_once_it_is_registered(tmp_path: Path) -> None:
    """ART raises where there is none yet; a script may still want to ask."""
    model, backend = make(tmp_path), DiaryBackend()
    before = backend_of(model)
    await model.register(backend)

    assert (before, backend_of(model)) == (None, backend)


def test_files_are_kept_below_the_base_path(tmp_path: Path) -> None:
    """Where the journal goes, too."""
    assert storage_dir(make(tmp_path)) == tmp_path / "demo" / "models" / "agent"
