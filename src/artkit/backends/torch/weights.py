"""What is trained of a model, and the copies of it that are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import torch
from safetensors.torch import load_file

from artkit.backends.torch.base_model import load_weights, save_model
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.lora import Adapters, merged, with_adapters
from artkit.backends.torch.products import joined
from artkit.backends.torch.tensor_file import write_tensors

if TYPE_CHECKING:
    from artkit.backends.torch.base_model import BaseModel
    from artkit.backends.torch.lora_settings import LoraSettings
    from artkit.backends.torch.policy_settings import PolicySettings

__all__ = ["FullWeights", "LoraWeights", "Weights", "open_weights"]

_ADAPTER, _ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
# peft's own wrappers around the model, in the names of its files.
_PEFT_PREFIX = "base_model.model."


class Weights(Protocol):
    """The weights of one model in training.

    Called by the thread that computes, but for `at`, which any thread calls at any time.
    """

    @property
    def decoder(self) -> Decoder:
        """What is trained, its trained parameters in float32; they are those that ask for a gradient."""
        ...

    def snapshot(self) -> Decoder:
        """A frozen copy to be served: training goes on without it."""
        ...

    def at(self, directory: Path | None) -> Decoder:
        """What is, or was, served of a checkpoint; None is the base model."""
        ...

    def save(self, directory: Path) -> None:
        """Write what was trained, and the tokenizer."""
        ...

    def load(self, directory: Path) -> None:
        """Go back to what `save` wrote."""
        ...


def open_weights(base: BaseModel, settings: PolicySettings, *, seed: int) -> Weights:
    """The weights where training starts.

    Args:
        base: The base model.
        settings: Whether adapters are trained or everything, and where and in what dtype it is computed.
        seed: What the micro model's weights and the adapters are drawn from.
    """
    if settings.lora is None:
        return FullWeights(base, settings, seed=seed)
    return LoraWeights(base, settings.lora, settings, seed=seed)


class FullWeights:
    """All parameters, in float32; checkpoints hold these, and what is served is a copy in the policy's dtype."""

    def __init__(self, base: BaseModel, settings: PolicySettings, *, seed: int) -> None:
        self._base, self._settings, self._seed = base, settings, seed
        self._decoder = base.decoder(seed=seed).to(settings.device)

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    def snapshot(self) -> Decoder:
        return self._decoder.snapshot(self._settings.dtype)

    def at(self, directory: Path | None) -> Decoder:
        if directory is None:
            decoder = self._base.decoder(seed=self._seed)
        else:
            decoder = Decoder(self._base.config, used_vocab_size=self._base.tokenizer.size)
            load_weights(decoder, directory)
        return decoder.to(self._settings.device, self._settings.dtype).requires_grad_(False).eval()

    def save(self, directory: Path) -> None:
        save_model(self._decoder, self._base.tokenizer, directory)

    def load(self, directory: Path) -> None:
        load_weights(self._decoder, directory)


class LoraWeights:
    """Adapters in float32 on a frozen base in the policy's dtype; what is served has them merged in.

    Checkpoints are peft's: `adapter_model.safetensors` and `adapter_config.json`.
    """

    def __init__(self, base: BaseModel, lora: LoraSettings, settings: PolicySettings, *, seed: int) -> None:
        self._base, self._lora = base, lora
        decoder = base.decoder(seed=seed).to(settings.device, settings.dtype)
        self._frozen = joined(decoder.requires_grad_(False).eval())
        self._decoder = with_adapters(self._frozen, lora, torch.Generator().manual_seed(seed))
        self._adapters = cast("Adapters", self._decoder.adapters)

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    def snapshot(self) -> Decoder:
        return merged(self._frozen, self._adapters)

    def at(self, directory: Path | None) -> Decoder:
        if directory is None:
            return self._frozen
        adapters = Adapters(self._frozen, self._lora)
        self._read(directory, adapters)
        return merged(self._frozen, adapters)

    def save(self, directory: Path) -> None:
        adapters = {f"{_PEFT_PREFIX}{name}": value for name, value in self._adapters.by_name().items()}
        write_tensors(directory / _ADAPTER, adapters, {"format": "pt"})
        config = self._lora.to_peft(self._base.name)
        (directory / _ADAPTER_CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
        self._base.tokenizer.save(directory)

    def load(self, directory: Path) -> None:
        self._read(directory, self._adapters)

    def _read(self, directory: Path, adapters: Adapters) -> None:
        saved = load_file(directory / _ADAPTER, device=str(self._frozen.device))
        adapters.load({name.removeprefix(_PEFT_PREFIX): value for name, value in saved.items()})
