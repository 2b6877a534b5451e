"""How one call of `train` trains."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from artkit.backends.torch.losses import PolicyLoss
from artkit.errors import ConfigurationError

__all__ = ["TrainOptions"]

_DECAYED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """The options of `TorchBackend.train`, checked; their meaning is told there."""

    learning_rate: float
    loss: PolicyLoss = field(default_factory=PolicyLoss)
    scale_rewards: bool = True
    kl_penalty_coef: float = 0.0
    kl_penalty_reference_step: int | None = None
    max_grad_norm: float | None = 1.0
    weight_decay: float = 0.0
    warmup_steps: int = 0
    decay_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("learning_rate", "kl_penalty_coef", "weight_decay"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"{name}={value!r} is not a finite number of at least 0", f"try {name}=0.0")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ConfigurationError(
                f"max_grad_norm={self.max_grad_norm!r} is not positive",
                "give it a positive number, or None for no limit",
            )
        if self.warmup_steps < 0:
            raise ConfigurationError(f"warmup_steps={self.warmup_steps!r} is negative", "use warmup_steps=0")
        if self.decay_steps is not None and not 0 <= self.decay_steps[0] < self.decay_steps[1]:
            raise ConfigurationError(
                f"decay_steps={self.decay_steps!r} is no (first, last) pair", "give two growing counts of updates"
            )

    def learning_rate_at(self, update: int) -> float:
        """The learning rate of an update, counted from 0 over the whole life of the model.

        >>> TrainOptions(learning_rate=1.0, warmup_steps=4, decay_steps=(10, 20)).learning_rate_at(1)
        0.5
        """
        rate = self.learning_rate
        if update < self.warmup_steps:
            rate *= (update + 1) / self.warmup_steps
        if self.decay_steps is not None:
            first, last = self.decay_steps
            progress = min(1.0, max(0.0, (update - first) / (last - first)))
            rate *= 1.0 - (1.0 - _DECAYED) * progress
        return rate
