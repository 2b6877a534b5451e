"""Which checkpoints of a model exist, and deleting them, whatever the backend."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.errors import CheckpointError

if TYPE_CHECKING:
    import art

__all__ = ["backend_of", "delete_checkpoint_files", "saved_steps", "storage_dir"]


def backend_of(model: art.Model[Any, Any]) -> Any | None:
    """Return the backend that `model` is registered with, or None."""
    return model._backend


def storage_dir(model: art.Model[Any, Any]) -> Path:
    """Return the directory in which ART keeps the model's history and logs; it may not exist yet."""
    return Path(model._get_output_dir())


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
