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


def rotated(heads: Tensor, rotation: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Turn the first `count` heads of `[batch, tokens, heads, head_dim]` by their places.

    Args:
        heads: Queries and keys first; the two parts of a pair are half a head apart.
        rotation: Cosine and sine of each pair, `[batch, tokens, 1, head_dim / 2]`.
        count: Of queries and keys.
    """
    output: Tensor = _Rotated.apply(heads, *rotation, count)  # type: ignore[no-untyped-call]
    return output


def gated(both: Tensor) -> Tensor:
    """SwiGLU (arXiv 2002.05202), eq. 6, between its products: `silu(gate) * up`, one behind the other in `both`."""
    output: Tensor = _Gated.apply(both)  # type: ignore[no-untyped-call]
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
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.count = count
        return _turned(heads, cosine, sine, count)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return _turned(gradients[0], cosine, -sine, ctx.count), None, None, None


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor, count: int) -> Tensor:
    output = torch.empty_like(heads)
    first, second = heads[:, :, :count].chunk(2, dim=-1)
    real, imaginary = output[:, :, :count].chunk(2, dim=-1)
    torch.mul(first, cosine, out=real).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=imaginary).addcmul_(first, sine)
    output[:, :, count:] = heads[:, :, count:]
    return output


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        ctx.save_for_backward(both)
        gate, up = both.chunk(2, dim=-1)
        return functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (both,) = ctx.saved_tensors
        gate, up = both.chunk(2, dim=-1)
        output = torch.empty_like(both)
        of_gate, of_up = output.chunk(2, dim=-1)
        torch.mul(gradients[0], up, out=of_gate)
        torch.ops.aten.silu_backward(of_gate, gate, grad_input=of_gate)
        torch.mul(functional.silu(gate), gradients[0], out=of_up)
        return output
