"""What low-rank adapters are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Self

from artkit.errors import ConfigurationError

__all__ = ["LINEAR_LAYERS", "LoraSettings"]

LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoraSettings:
    """Train adapters in place of all parameters: to a linear layer `W x` they add `alpha / rank * B (A x)`.

    `B` is zero at first, so training starts at the base model. Defaults are those of ART's LocalBackend.

    Source: LoRA (arXiv 2106.09685), section 4.1.

    Attributes:
        rank: Rows of `A` and columns of `B`; at least 1.
        alpha: Their weight, times the rank; positive.
        target_modules: The layers that have adapters, by their names in Hugging Face's models.

    Raises:
        ConfigurationError: A setting cannot work.
    """

    rank: int = 8
    alpha: float = 16
    target_modules: tuple[str, ...] = LINEAR_LAYERS

    def __post_init__(self) -> None:
        if not isinstance(self.rank, Integral) or isinstance(self.rank, bool) or self.rank < 1:
            raise ConfigurationError(f"LoraSettings(rank={self.rank!r}) is no positive whole number", "try rank=8")
        if not isinstance(self.alpha, Real) or not math.isfinite(self.alpha) or self.alpha <= 0:
            raise ConfigurationError(f"LoraSettings(alpha={self.alpha!r}) is no positive number", "try alpha=16")
        if isinstance(self.target_modules, str) or not self.target_modules:
            raise ConfigurationError(
                f"LoraSettings(target_modules={self.target_modules!r}) is no list of layers",
                f"name some of {', '.join(LINEAR_LAYERS)}",
            )
        for name in self.target_modules:
            if name not in LINEAR_LAYERS:
                raise ConfigurationError(
                    f"LoraSettings(target_modules) names {name!r}, which is no linear layer of the decoder",
                    f"the layers are {', '.join(LINEAR_LAYERS)}",
                )
        # In one order: settings that mean the same are equal.
        ordered = tuple(name for name in LINEAR_LAYERS if name in self.target_modules)
        object.__setattr__(self, "target_modules", ordered)

    def __repr__(self) -> str:
        given = (f"{one.name}={value!r}" for one in fields(self) if (value := getattr(self, one.name)) != one.default)
        return f"LoraSettings({', '.join(given)})"

    @property
    def scale(self) -> float:
        """What `B A` is multiplied with."""
        return float(self.alpha) / self.rank

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {"rank": self.rank, "alpha": self.alpha, "target_modules": list(self.target_modules)}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(**{**raw, "target_modules": tuple(raw["target_modules"])})

    def to_peft(self, base_model: str) -> dict[str, Any]:
        """The fields of an `adapter_config.json` that peft reads back as these adapters."""
        return {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base_model,
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "target_modules": list(self.target_modules),
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "init_lora_weights": True,
            "use_rslora": False,
        }
