"""How one backend computes, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import torch

from artkit.backends.torch.devices import find_device
from artkit.backends.torch.lora_settings import LoraSettings
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PolicySettings"]

_DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# On a CPU the activations of a small model should stay in its cache (8192 tokens took a quarter longer than 2048); a
# GPU wants long passes.
_MICRO_BATCH_TOKENS = {"cpu": 2048, "cuda": 16_384}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """The arguments of `TorchBackend`, checked; their meaning is told there.

    Attributes:
        seed: What the micro model's weights and the adapters are drawn from.
        device: Where everything is computed.
        dtype: Of what is served, and of every forward pass.
        lora: Adapters in place of all parameters.
        micro_batch_tokens: Tokens of one forward and backward pass.
    """

    seed: int
    device: torch.device
    dtype: torch.dtype
    lora: LoraSettings | None
    micro_batch_tokens: int

    @classmethod
    def of(
        cls, *, seed: int, device: str, dtype: str, lora: LoraSettings | None, micro_batch_tokens: int | None
    ) -> Self:
        """Find the device and the defaults.

        Raises:
            ConfigurationError: An argument cannot work here.
        """
        if dtype not in _DTYPES:
            raise ConfigurationError(f"dtype={dtype!r} is not supported", f"use one of {', '.join(map(repr, _DTYPES))}")
        if lora is not None and not isinstance(lora, LoraSettings):
            raise ConfigurationError(
                f"lora={lora!r} is no LoraSettings", "use lora=LoraSettings(), or None to train all parameters"
            )
        place = find_device(device)
        budget = _MICRO_BATCH_TOKENS[place.type] if micro_batch_tokens is None else micro_batch_tokens
        if not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 1:
            raise ConfigurationError(
                f"micro_batch_tokens={micro_batch_tokens!r} is no positive count",
                f"use None, which is {_MICRO_BATCH_TOKENS[place.type]} on this device",
            )
        return cls(seed=seed, device=place, dtype=_DTYPES[dtype], lora=lora, micro_batch_tokens=int(budget))

    def arguments(self) -> dict[str, Any]:
        """What a backend is told that is to serve what was trained so: the arguments that are not the defaults."""
        dtype = next(name for name, dtype in _DTYPES.items() if dtype == self.dtype)
        given = {"dtype": (dtype, "float32"), "lora": (self.lora, None), "seed": (self.seed, 0)}
        return {name: value for name, (value, default) in given.items() if value != default}
