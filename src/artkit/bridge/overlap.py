"""Whether a backend can be sampled from while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artkit.bridge.checkpoints import is_instance

if TYPE_CHECKING:
    import art

__all__ = ["why_no_overlap"]


def why_no_overlap(backend: Any, model: art.TrainableModel[Any, Any]) -> str | None:
    """Return why nothing can be sampled from `model` while `backend` trains it, in words; None where that can be.

    ART's local backend puts its inference to sleep for each training, unless the two have GPUs of their own, or its
    inference or its training is a service elsewhere.
    """
    if not is_instance(backend, "art.local.backend", "LocalBackend"):
        return None
    from art.dev.validate import is_dedicated_mode

    config: Any = getattr(model, "_internal_config", None) or {}
    if is_dedicated_mode(config) or config.get("tinker_args") is not None:
        return None
    return (
        "ART's LocalBackend puts its inference to sleep while it trains, for both use the same GPU; "
        "trainer_gpu_ids and inference_gpu_ids in the model's internal config give each its own"
    )
