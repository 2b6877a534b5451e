"""Where tensors live."""

from __future__ import annotations

import torch

from artkit.errors import ConfigurationError

__all__ = ["find_device"]


def find_device(name: str) -> torch.device:
    """The device of that name; `"auto"` is CUDA where there is one, else the CPU.

    Raises:
        ConfigurationError: There is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigurationError(f"device={name!r} is no device: {error}", "use 'auto', 'cpu' or 'cuda'") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise ConfigurationError(f"device={name!r} is not available here", "use 'auto' or 'cpu'")
    return device
