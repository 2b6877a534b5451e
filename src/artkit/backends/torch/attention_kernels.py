"""Which kernels attention may be computed with."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    import torch

__all__ = ["for_any_shape"]

_FOR_ANY_SHAPE = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def for_any_shape(device: torch.device) -> AbstractContextManager[None]:
    """Within it, a shape that was not seen before costs nothing: cuDNN plans for each of them, for tenths of a second.

    Prompts and micro-batches come in ever new shapes. What is captured in few of them may be planned for.
    """
    return sdpa_kernel(_FOR_ANY_SHAPE) if device.type == "cuda" else nullcontext()
