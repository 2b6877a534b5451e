"""Which kernels attention may be computed with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["for_any_shape"]


@contextmanager
def for_any_shape(device: torch.device) -> Iterator[None]:
    """Within it, a shape that was not seen before costs nothing: cuDNN plans for each of them, for tenths of a second.

    Prompts and micro-batches come in ever new shapes. Decoding is captured in few, and stays outside.
    """
    is_planned = device.type == "cuda" and torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    if is_planned:
        torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    try:
        yield
    finally:
        if is_planned:
            torch.backends.cuda.enable_cudnn_sdp(enabled=True)
