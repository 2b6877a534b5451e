"""What a decoder does between its products, in as few passes over wide tensors as possible, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["gated", "normed", "rotated"]


def normed(hidden: Tensor, gain: Tensor, eps: float) -> Tensor:
    """RMSNorm (arXiv 1910.07467), eq. 4."""
    # Elsewhere one kernel does it, or the gain is trained.
    if gain.requires_grad or hidden.is_cuda or hidden.dtype != torch.float32:
        return functional.rms_norm(hidden, gain.shape, gain, eps)
    output: Tensor = _Normed.apply(hidden, gain, eps)  # type: ignore[no-untyped-call]
    return output


def rotated(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn `[batch, tokens, heads, head_dim]` by its places.

    Args:
        heads: Queries or keys; the two parts of a pair are half a head apart.
        rotation: Cosine and sine of each pair, `[batch, tokens, 1, head_dim / 2]`.
    """
    output: Tensor = _Rotated.apply(heads, *rotation)  # type: ignore[no-untyped-call]
    return output


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """SwiGLU (arXiv 2002.05202), eq. 6, between its products: `silu(gate) * up`."""
    output: Tensor = _Gated.apply(gate, up)  # type: ignore[no-untyped-call]
    return output


class _Normed(torch.autograd.Function):
    """Of a frozen gain."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, gain: Tensor, eps: float) -> Tensor:
        norms = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        inverse = norms.square_().div_(hidden.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(hidden, inverse, gain)
        output: Tensor = hidden * inverse
        return output.mul_(gain)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, inverse, gain = ctx.saved_tensors
        output = gradients[0] * gain
        along = output * hidden
        factor = along.sum(dim=-1, keepdim=True).mul_(inverse**3).div_(hidden.shape[-1])
        return output.mul_(inverse).sub_(torch.mul(hidden, factor, out=along)), None, None


class _Rotated(torch.autograd.Function):
    """Back is the turn by the negative angle."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _turned(heads, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return _turned(gradients[0], cosine, -sine), None, None


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    output = torch.empty_like(heads)
    real, imaginary = output.chunk(2, dim=-1)
    torch.mul(first, cosine, out=real).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=imaginary).addcmul_(first, sine)
    return output


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gate, up = ctx.saved_tensors
        (gradient,) = gradients
        of_gate = gradient * up
        torch.ops.aten.silu_backward(of_gate, gate, grad_input=of_gate)
        return of_gate, functional.silu(gate).mul_(gradient)
