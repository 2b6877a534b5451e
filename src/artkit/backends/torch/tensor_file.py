"""Files of tensors, in the format of safetensors."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["write_tensors"]

# All that the library says of a full disk is a text: "… (os error 28)", and in old versions "… Os { code: 28, …".
_OS_ERROR = re.compile(r"(?:os error|code:) (\d+)")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors of any device.

    Raises:
        OSError: The file cannot be written.
    """
    # Of the mode that any file gets: the library makes another one beside it that only its owner may read.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(_on_cpu(tensors), path, dict(metadata))
    except SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(stat.S_IMODE(mode))


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
