"""How one call of `train` trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Self

from artkit.backends.torch.losses import PolicyLoss
from artkit.errors import ConfigurationError

__all__ = ["TrainOptions"]

_DECAYED = 0.1

# Options that are the loss's, by what they are called there.
_LOSS_FIELDS = {
    "loss_fn": "kind",
    "epsilon": "epsilon",
    "epsilon_high": "epsilon_high",
    "importance_sampling_level": "importance_sampling_level",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """The options of `TorchBackend.train`, checked; their meaning is told there."""

    learning_rate: float = 5e-6
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
            if not (_is_number(value) and value >= 0):
                raise ConfigurationError(f"{name}={value!r} is not a finite number of at least 0", f"try {name}=0.0")
        norm = self.max_grad_norm
        # Infinity limits nothing, and is a usual way to say so.
        if norm is not None and not ((_is_number(norm) or norm == math.inf) and norm > 0):
            raise ConfigurationError(
                f"max_grad_norm={norm!r} is not positive", "give it a positive number, or None for no limit"
            )
        if not isinstance(self.scale_rewards, bool):
            raise ConfigurationError(f"scale_rewards={self.scale_rewards!r} is neither True nor False", "give one")
        if not _is_count(self.warmup_steps):
            raise ConfigurationError(f"warmup_steps={self.warmup_steps!r} is no count", "use warmup_steps=0")
        step = self.kl_penalty_reference_step
        if step is not None and not _is_count(step):
            raise ConfigurationError(
                f"kl_penalty_reference_step={step!r} is no step", "give the step of a checkpoint, or None"
            )
        if self.decay_steps is not None and not _is_span(self.decay_steps):
            raise ConfigurationError(
                f"decay_steps={self.decay_steps!r} is no (first, last) pair", "give two growing counts of updates"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the options that `train` would be called with; those that are missing have its defaults.

        Raises:
            ConfigurationError: An option is unknown, or cannot work.
        """
        own = {field.name for field in fields(cls)} - {"loss"}
        known = own | _LOSS_FIELDS.keys()
        for name in options:
            if name not in known:
                raise ConfigurationError(
                    f"{name!r} is no option of train", f"the options are {', '.join(sorted(known))}"
                )
        loss = PolicyLoss(**{_LOSS_FIELDS[name]: value for name, value in options.items() if name in _LOSS_FIELDS})
        return cls(loss=loss, **{name: value for name, value in options.items() if name in own})

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


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_span(value: object) -> bool:
    """Whether it is `(first, last)`; settings that were read from JSON hold a list."""
    if not isinstance(value, tuple | list) or len(value) != len(("first", "last")) or not all(map(_is_count, value)):
        return False
    return bool(value[0] < value[1])
