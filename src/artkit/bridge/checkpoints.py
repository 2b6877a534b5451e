"""Which checkpoints of a model exist, and deleting them, whatever the backend."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.errors import CheckpointError

if TYPE_CHECKING:
    import art

__all__ = [
    "backend_of",
    "delete_checkpoint_files",
    "saved_steps",
    "step_of_checkpoint",
    "storage_dir",
    "storage_dir_on",
]


def backend_of(model: art.Model[Any, Any]) -> Any | None:
    """Return the backend that `model` is registered with, or None."""
    return model._backend


def storage_dir(model: art.Model[Any, Any]) -> Path:
    """Return the directory in which ART keeps the model's history and logs; it may not exist yet."""
    return Path(model._get_output_dir())


def storage_dir_on(backend: Any, model: art.Model[Any, Any]) -> Path:
    """Return what `storage_dir` will be once `model` is registered with `backend`, without registering it.

    A backend that keeps models below a path of its own (ART's local one and the embedded one do) sets the model's
    base path at registration.
    """
    from art.utils.output_dirs import get_model_dir

    path = getattr(backend, "_path", None)
    return storage_dir(model) if path is None else Path(get_model_dir(model=model, art_path=str(path)))


def step_of_checkpoint(model: art.Model[Any, Any], path: str | Path) -> int | None:
    """Return the step of the checkpoint of `model` that `path` is, or lies in; None where it is none of its own."""
    below = Path(path).resolve()
    for directory in (below, *below.parents):
        if directory.parent == (storage_dir(model) / "checkpoints").resolve() and directory.name.isdigit():
            return int(directory.name)
    return None


async def saved_steps(backend: Any, model: art.TrainableModel[Any, Any]) -> frozenset[int] | None:
    """Return the steps of all saved checkpoints, or None where the backend cannot list them.

    A backend with a method `checkpoint_steps(model)`, sync or async, is asked. Of ART's own backends, those that keep
    their checkpoints in a directory are listed from there, and the serverless one by its service.
    """
    ask = getattr(backend, "checkpoint_steps", None)
    if callable(ask):
        steps = ask(model)
        return frozenset(await steps if inspect.isawaitable(steps) else steps)
    if _is_instance(backend, "art.local.backend", "LocalBackend"):
        return _steps_in(_local_dir(backend, model) / "checkpoints")
    if _is_instance(backend, "art.serverless.backend", "ServerlessBackend") and model.id is not None:
        listing = backend._client.models.checkpoints.list(model_id=model.id)
        return frozenset([checkpoint.step async for checkpoint in listing])
    return None


async def delete_checkpoint_files(backend: Any, model: art.TrainableModel[Any, Any], keep: frozenset[int]) -> None:
    """Delete every checkpoint of `model` but those of the steps in `keep`.

    Raises:
        CheckpointError: `keep` is empty; nothing is deleted.
    """
    if not keep:
        raise CheckpointError("no checkpoint is to be kept", "keep at least the current step")
    await backend._delete_checkpoint_files(model, sorted(keep))


def _is_instance(backend: object, module: str, name: str) -> bool:
    """Whether `backend` is of that class of ART; a module that nobody imported (some need torch) has no instances."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(backend, kind)


def _local_dir(backend: Any, model: art.TrainableModel[Any, Any]) -> Path:
    # ART's local backend keeps checkpoints below its own path, which need not be the model's base path.
    from art.utils.output_dirs import get_model_dir

    return Path(get_model_dir(model=model, art_path=backend._path))


def _steps_in(directory: Path) -> frozenset[int]:
    if not directory.is_dir():
        return frozenset()
    return frozenset(int(entry.name) for entry in directory.iterdir() if entry.is_dir() and entry.name.isdigit())
