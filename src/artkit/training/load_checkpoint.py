"""Finding a checkpoint of a model again: the best one, the latest, or that of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from artkit.bridge import backend_of, checkpoint_dir, saved_steps, storage_dir
from artkit.checkpoints import KeepBest, MetricHistory
from artkit.checkpoints.known_names import known_names, nearest_name
from artkit.errors import BackendError, CheckpointError, ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    import art

__all__ = ["Checkpoint", "load_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One saved checkpoint of a model.

    Attributes:
        step: The training step after which it was saved.
        inference_name: What to send as `model` to the model's endpoint to sample from these weights.
        path: The directory that holds it on this machine; None where the backend keeps it elsewhere.
    """

    step: int
    inference_name: str
    path: Path | None = None


async def load_checkpoint(
    model: art.TrainableModel[Any, Any],
    which: Literal["best", "latest"] | int,
    *,
    metric: str = "val/reward",
    mode: Literal["max", "min"] = "max",
    bound: Literal["mean", "lower"] = "mean",
) -> Checkpoint:
    """Return the checkpoint of `model` that `which` says, among those that are still there.

    Args:
        model: A registered model; or one whose checkpoints lie below its base path, which needs no backend. A backend
            that was closed stays closed: to sample, register the model again.
        which: "best" by `metric`, ranked as `KeepBest(metric, mode=mode, bound=bound)` ranks, so give what the run's
            policy was given; "latest"; or a step.
        metric: The metric as history.jsonl names it, split first.
        mode: Whether the largest value is the best, or the smallest.
        bound: What is compared: the "mean", or "lower", the end of its interval at which a checkpoint is at its worst.

    Raises:
        ConfigurationError: `which` is none of these, or `metric`, `mode` and `bound` rank nothing.
        CheckpointError: There is no such checkpoint; names the steps or the metrics that there are.
    """
    if which not in ("best", "latest") and (isinstance(which, bool) or not isinstance(which, int)):
        raise ConfigurationError(f"which={which!r} names no checkpoint", 'give "best", "latest" or a step, such as 12')
    ranking = KeepBest(metric, mode=mode, bound=bound)
    saved = await _saved(model)
    if which == "best":
        step = await asyncio.to_thread(_best, model, saved, ranking)
    else:
        step = max(saved) if which == "latest" else int(which)
    if step not in saved:
        raise CheckpointError(f"{model.name!r} has no checkpoint of step {step}", f"there are those of {_list(saved)}")
    try:
        name = model.get_inference_name(step=step)
    except ValueError as error:  # ART 0.5.23 serves some models without a name for each step
        raise CheckpointError(
            f"step {step} of {model.name!r} has no inference name of its own: {error}",
            f"async with backend.exact_adapter_lease(model, {step}): sample inside by model.get_inference_name()",
        ) from error
    return Checkpoint(step=step, inference_name=name, path=checkpoint_dir(backend_of(model), model, step))


async def _saved(model: art.TrainableModel[Any, Any]) -> frozenset[int]:
    backend = backend_of(model)
    try:
        saved = await saved_steps(backend, model)
    except BackendError:
        # The embedded backend was closed, as a run closes it: the files are where they were.
        saved = await saved_steps(None, model)
        if not saved:
            raise
    if backend is None and not saved:
        raise CheckpointError(
            f"{model.name!r} is not registered, and there is no checkpoint of it in {str(storage_dir(model))!r}",
            "await model.register(backend) first",
        )
    if saved is None:
        raise CheckpointError(
            f"{type(backend).__name__} cannot list its checkpoints, so which there are is not known",
            "model.get_inference_name(step=…) names one unchecked",
        )
    if not saved:
        raise CheckpointError(f"{model.name!r} has no checkpoint yet", "train it first")
    return saved


def _best(model: art.TrainableModel[Any, Any], saved: frozenset[int], ranking: KeepBest) -> int:
    path = storage_dir(model) / "history.jsonl"
    history = MetricHistory.read(path, metrics=ranking.ranks_by)
    best = next(iter(ranking.rank(saved, history)), None)
    if best is None:
        raise CheckpointError(
            f"no {ranking.column} for any of the checkpoints, those of {_list(saved)}",
            _what_there_is(ranking, history.metrics(), str(path)),
        )
    return best


def _what_there_is(ranking: KeepBest, names: frozenset[str], path: str) -> str:
    if not names:
        return f"{path!r} holds no metric: validate, or give a step"
    if near := nearest_name(ranking.metric, names):
        return f"did you mean {near!r}?"
    return f"{path!r} holds {known_names(ranking.metric, names)}"


def _list(steps: Iterable[int]) -> str:
    return f"steps {', '.join(map(str, sorted(steps)))}"
