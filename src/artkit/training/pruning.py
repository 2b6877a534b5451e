"""Pruning checkpoints: the policy decides, this acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from artkit.bridge import backend_of, delete_checkpoint_files, saved_steps, storage_dir
from artkit.checkpoints import Decision, MetricHistory
from artkit.errors import CheckpointError

if TYPE_CHECKING:
    import art

    from artkit.checkpoints import CheckpointPolicy

__all__ = ["prune_checkpoints"]


async def prune_checkpoints(
    model: art.TrainableModel[Any, Any], policy: CheckpointPolicy, *, in_use: Collection[int] = ()
) -> Decision:
    """Delete the checkpoints of `model` that `policy` does not keep; works in any ART script.

    Takes the place of `model.delete_checkpoints()`, which deletes the best checkpoint where the history or the metric
    is missing.

    Args:
        model: A registered model.
        policy: What to keep. The current step is kept whatever it says.
        in_use: Further steps to keep, such as the reference of a KL penalty.

    Returns:
        What was kept, and why; everything else that was saved is gone.

    Raises:
        CheckpointError: The model is not registered, or its backend cannot list its checkpoints; nothing was deleted.
    """
    backend = backend_of(model)
    if backend is None:
        raise CheckpointError("the model is not registered", "await model.register(backend) first")
    saved = await saved_steps(backend, model)
    if saved is None:
        raise CheckpointError(
            f"{type(backend).__name__} cannot list its checkpoints, so what would be deleted is not known",
            "keep all of them (KeepAll()), or delete by hand",
        )
    decision = policy.decide(saved, MetricHistory.read(storage_dir(model) / "history.jsonl"))
    current = await model.get_step()
    for step, why in ({step: "in use" for step in in_use} | {current: "the current step"}).items():
        if step in saved and step not in decision.keep:
            decision = dataclasses.replace(
                decision, keep=decision.keep | {step}, why={**decision.why, step: why}
            )
    # A checkpoint that was saved since the decision was made is none of its business: it stays too.
    if decision.delete(saved):
        now = await saved_steps(backend, model) or frozenset()
        await delete_checkpoint_files(backend, model, now - decision.delete(saved))
    return decision
