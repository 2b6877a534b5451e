"""Files of tensors, in the format of safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["write_tensors"]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors of any device.

    Raises:
        OSError: The file cannot be written.
    """
    # Through a file of ours: of a full disk the library would not say which error it was.
    path.write_bytes(save(_on_cpu(tensors), dict(metadata)))


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {name: tensor.detach() for name, tensor in tensors.items()}
    by_dtype: dict[torch.dtype, list[str]] = {}
    for name, tensor in found.items():
        if tensor.device.type != "cpu":
            by_dtype.setdefault(tensor.dtype, []).append(name)
    # All of one dtype in one transfer: a thousand small ones wait for the device a thousand times.
    for names in by_dtype.values():
        together = torch.cat([found[name].flatten() for name in names]).cpu()
        parts = torch.split(together, [found[name].numel() for name in names])
        found |= {name: part.view(found[name].shape) for name, part in zip(names, parts, strict=True)}
    return found
