"""Which checkpoints of a model exist, and deleting them, whatever the backend."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.errors import CheckpointError

if TYPE_CHECKING:
    import art

__all__ = [
    "backend_of",
    "can_delete_checkpoints",
    "checkpoint_dir",
    "delete_checkpoint_files",
    "is_instance",
    "saved_steps",
    "served_steps",
    "step_of_checkpoint",
    "step_of_name",
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


def checkpoint_dir(backend: Any | None, model: art.Model[Any, Any], step: int) -> Path | None:
    """Return the local directory of the checkpoint of `step`, or None where there is none.

    Args:
        backend: Who keeps it; None looks below the model's base path.
        model: Whose it is.
        step: Its step.
    """
    directory = storage_dir(model) if backend is None else storage_dir_on(backend, model)
    return _directories_in(directory / "checkpoints").get(step)


async def saved_steps(backend: Any | None, model: art.TrainableModel[Any, Any]) -> frozenset[int] | None:
    """Return the steps of all saved checkpoints, or None where the backend cannot list them.

    A backend with a method `checkpoint_steps(model)`, sync or async, is asked. Of ART's own backends, those that keep
    their checkpoints in a directory are listed from there, the serverless one by its service, and the native Tinker one
    by what it knows of its service. Without a backend, what lies below the model's base path is listed.
    """
    if backend is None:
        return frozenset(_directories_in(storage_dir(model) / "checkpoints"))
    ask = getattr(backend, "checkpoint_steps", None)
    if callable(ask):
        steps = ask(model)
        return frozenset(await steps if inspect.isawaitable(steps) else steps)
    if is_instance(backend, "art.local.backend", "LocalBackend"):
        return frozenset(_directories_in(storage_dir_on(backend, model) / "checkpoints"))
    if is_instance(backend, "art.serverless.backend", "ServerlessBackend") and model.id is not None:
        listing = backend._client.models.checkpoints.list(model_id=model.id)
        return frozenset([checkpoint.step async for checkpoint in listing])
    if is_instance(backend, "art.tinker_native.backend", "TinkerNativeBackend"):
        # 0.5.23 keys its states by project and storage name, 0.5.18 by the model's name.
        key = backend._model_key(model) if hasattr(backend, "_model_key") else model.name
        state = backend._model_state.get(key)
        # What can be sampled from: a state that can be trained on further is saved on request only.
        return None if state is None else frozenset(state.sampler_checkpoint_paths)
    return None


def served_steps(backend: Any, model: art.TrainableModel[Any, Any]) -> frozenset[int]:
    """Return the steps that somebody is known to sample from: inside a lease, or while newer weights are being loaded.

    That is the step in the model's inference name of the moment, as ART's backends and the embedded one write it, and
    those that ART's local backend has leased.
    """
    named = step_of_name(model.get_inference_name())
    steps = set() if named is None else {named}
    leases = getattr(backend, "_adapter_leases", {})
    # 0.5.23 keys them by project and storage name, 0.5.18 by the model's name.
    for key in (model.name, (model.project, getattr(model, "run_name", None) or model.name)):
        if (manager := leases.get(key)) is not None:
            steps |= manager.active_steps()
    return frozenset(steps)


def step_of_name(inference_name: str) -> int | None:
    """Return the step in an inference name, as ART's backends and the embedded one write it; None where it has none.

    >>> step_of_name("agent@12"), step_of_name("wandb-artifact:///me/project/agent:step3"), step_of_name("agent")
    (12, 3, None)
    """
    found = re.search(r"(?:@|:step)(\d+)$", inference_name)
    return None if found is None else int(found[1])


def can_delete_checkpoints(backend: Any) -> bool:
    """Whether deleting is more than a message that it is not implemented, as ART's native Tinker backend has it."""
    code = getattr(getattr(backend, "_delete_checkpoint_files", None), "__code__", None)
    return code is None or code.co_names != ("print",)


async def delete_checkpoint_files(backend: Any, model: art.TrainableModel[Any, Any], keep: frozenset[int]) -> None:
    """Delete every checkpoint of `model` but those of the steps in `keep`.

    Raises:
        CheckpointError: `keep` is empty; nothing is deleted.
    """
    if not keep:
        raise CheckpointError("no checkpoint is to be kept", "keep at least the current step")
    await backend._delete_checkpoint_files(model, sorted(keep))


def is_instance(backend: object, module: str, name: str) -> bool:
    """Whether `backend` is of that class of ART; a module that nobody imported (some need torch) has no instances."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(backend, kind)


def _directories_in(directory: Path) -> dict[int, Path]:
    if not directory.is_dir():
        return {}
    return {int(entry.name): entry for entry in directory.iterdir() if entry.is_dir() and _is_step(entry.name)}


def _is_step(name: str) -> bool:
    return name.isascii() and name.isdigit()
