"""Rotary positions: where a token stands is an angle by which its queries and keys are turned."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["paired", "rotation_table"]


def paired(rows: Tensor, head_dim: int) -> Tensor:
    """Put what is turned together side by side: `[heads * head_dim, …]`, in another order inside each head.

    Hugging Face's checkpoints have the two parts of a pair half a head apart. Side by side they are one complex number,
    and queries and keys in the same order have the same products.
    """
    return rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)


@lru_cache(maxsize=8)
def rotation_table(positions: int, head_dim: int, theta: float, device: torch.device) -> Tensor:
    """The factor of each pair at each position: `[positions, 1, head_dim / 2]`, complex.

    Source: RoFormer (arXiv 2104.09864), eq. 34.
    """
    with torch.inference_mode(mode=False):
        exponents = torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim
        angles = torch.arange(positions, device=device)[:, None, None] * theta**-exponents
        return torch.polar(torch.ones_like(angles), angles)
