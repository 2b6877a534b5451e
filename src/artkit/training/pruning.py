"""Pruning checkpoints: the policy decides, this acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from artkit.bridge import backend_of, delete_checkpoint_files, saved_steps, storage_dir
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
    is missing.

    Args:
        model: A registered model.
        policy: What to keep. The current step is kept whatever it says.
        in_use: Further steps to keep, such as the reference of a KL penalty.

    Returns:
        What was kept, and why; everything else that was saved is gone.

    Raises:
        ConfigurationError: `policy` is no checkpoint policy.
        CheckpointError: The model is not registered, or its backend cannot list its checkpoints; nothing was deleted.
    """
    check_type("checkpoint_policy", policy)
    return await prune(model, policy, MetricHistory.read(storage_dir(model) / "history.jsonl"), in_use=in_use)


async def prune(
    model: art.TrainableModel[Any, Any],
    policy: CheckpointPolicy,
    history: MetricHistory,
    *,
    in_use: Collection[int] = (),
) -> Decision:
    """Do what `prune_checkpoints` does, by a history that was read already."""
    backend = backend_of(model)
    if backend is None:
        raise CheckpointError("the model is not registered", "await model.register(backend) first")
    saved = await saved_steps(backend, model)
    if saved is None:
        raise CheckpointError(
            f"{type(backend).__name__} cannot list its checkpoints, so what would be deleted is not known",
            "keep all of them (KeepAll()), or delete by hand",
        )
    current = await model.get_step()
    needed = dict.fromkeys(in_use, "in use") | {current: "the current step"}
    decision = _keeping(policy.decide(saved, history), {step: why for step, why in needed.items() if step in saved})
    # A checkpoint that was saved since the decision was made is none of its business: it stays too.
    if delete := decision.delete(saved):
        now = await saved_steps(backend, model) or frozenset()
        await delete_checkpoint_files(backend, model, now - delete)
    return decision


def _keeping(decision: Decision, needed: dict[int, str]) -> Decision:
    added = {step: why for step, why in needed.items() if step not in decision.keep}
    return dataclasses.replace(decision, keep=decision.keep | added.keys(), why={**decision.why, **added})
