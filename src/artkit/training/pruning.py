"""Pruning checkpoints: the policy decides, this acts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from artkit.bridge import (
    backend_of,
    can_delete_checkpoints,
    delete_checkpoint_files,
    saved_steps,
    served_steps,
    storage_dir,
)
from artkit.checkpoints import Decision, MetricHistory
from artkit.errors import CheckpointError
from artkit.training.type_checks import check_type

if TYPE_CHECKING:
    import art

    from artkit.checkpoints import CheckpointPolicy

__all__ = ["prune", "prune_checkpoints"]


async def prune_checkpoints(
    model: art.TrainableModel[Any, Any], policy: CheckpointPolicy, *, in_use: Collection[int] = ()
) -> Decision:
    """Delete the checkpoints of `model` that `policy` does not keep; works in any ART script.

    Takes the place of `model.delete_checkpoints()`, which deletes the best checkpoint where the history or the metric
    is missing: here, nothing is deleted then, and the reasons name the metrics that there are. Nothing is deleted
    either while the current step has no checkpoint yet.

    Args:
        model: A registered model. Its backend is asked although a trainer has closed it, as `run` and `evaluate` do:
            ART's and others that keep checkpoints as files delete them then too, and the embedded one has to be opened
            again by `await model.register(backend)`.
        policy: What to keep. The current step is kept whatever it says, and so is one that is being sampled from.
        in_use: Further steps to keep, such as the reference of a KL penalty.

    Returns:
        What was kept, and why; everything else that was saved is gone. `print` shows both, step by step.

    Raises:
        ConfigurationError: `policy` is no checkpoint policy.
        CheckpointError: The model is not registered, or its backend cannot list or delete its checkpoints; nothing was
            deleted.
        BackendError: The embedded backend was closed; nothing was deleted.
    """
    check_type("checkpoint_policy", policy)
    history = await asyncio.to_thread(MetricHistory.read, storage_dir(model) / "history.jsonl", metrics=policy.ranks_by)
    return await prune(model, policy, history, in_use=in_use)


async def prune(
    model: art.TrainableModel[Any, Any],
    policy: CheckpointPolicy,
    history: MetricHistory,
    *,
    in_use: Collection[int] = (),
    since_step: int = 0,
) -> Decision:
    """Do what `prune_checkpoints` does, by a history that was read already; earlier steps are none of its business."""
    backend = backend_of(model)
    if backend is None:
        raise CheckpointError("the model is not registered", "await model.register(backend) first")
    name = type(backend).__name__
    hint = "keep all of them (KeepAll()), or delete by hand"
    if not can_delete_checkpoints(backend):
        raise CheckpointError(f"{name} cannot delete checkpoints", hint)
    saved = await saved_steps(backend, model)
    if saved is None:
        raise CheckpointError(f"{name} cannot list its checkpoints, so what would be deleted is not known", hint)
    current = await model.get_step()
    own = frozenset(step for step in saved if step >= since_step)
    decision = policy.decide(own, history)
    if current not in saved:
        return _keeping(decision, dict.fromkeys(own, f"the current step, {current}, has no checkpoint yet"))
    needed = (
        dict.fromkeys(in_use, "in use")
        | dict.fromkeys(served_steps(backend, model), "being sampled from")
        | {current: "the current step"}
    )
    decision = _keeping(decision, needed)
    if delete := decision.delete(own):
        # A checkpoint that was saved since the decision was made is none of its business: it stays too.
        now = await saved_steps(backend, model) or frozenset()
        await delete_checkpoint_files(backend, model, now - delete)
        left = await saved_steps(backend, model) or frozenset()
        decision = _keeping(decision, dict.fromkeys(left & delete, f"{name} still has it"))
    return decision


def _keeping(decision: Decision, needed: dict[int, str]) -> Decision:
    """Return the decision that keeps the `needed` steps too, of those that were decided on."""
    added = {step: why for step, why in needed.items() if step in decision.why and step not in decision.keep}
    return dataclasses.replace(decision, keep=decision.keep | added.keys(), why={**decision.why, **added})
