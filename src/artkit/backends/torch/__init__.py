"""The embedded backend: serving and training small models in this process. It needs the `torch` extra."""

from __future__ import annotations

from artkit.backends.torch.backend import TorchBackend
from artkit.backends.torch.lora_settings import LoraSettings

__all__ = ["LoraSettings", "TorchBackend"]
