"""A decoder's frozen weights, laid out for sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from torch import nn

    from artkit.backends.torch.decoder import Decoder

__all__ = ["CachedAttention", "ServedDecoder"]


class CachedAttention(Protocol):
    """How new tokens meet the past of their rows; called once per layer and pass.

    Takes the queries of `T` tokens, `[T, heads, head_dim]`, and their keys and values, `[T, 2, kv_heads, head_dim]`;
    returns `[T, heads * head_dim]`.
    """

    def __call__(self, layer: int, query: Tensor, new: Tensor) -> Tensor: ...


class ServedDecoder:
    """The same function as `Decoder`, in fewer and faster operations, for weights that do not change.

    Products of the same input are one product, its matrix laid out as it is read, and gains are part of the matrix
    behind them. That is a copy of the layers; embedding and head are shared with the decoder, which may go.

    Args:
        decoder: The weights; what happens to the decoder's layers later changes nothing here.
    """

    def __init__(self, decoder: Decoder) -> None:
        stack = decoder.model
        self.config, self.used_vocab_size = decoder.config, decoder.used_vocab_size
        self._embedding = stack.embed_tokens.weight.detach()
        head = self._embedding if decoder.lm_head is None else decoder.lm_head.weight.detach()
        self._head = head[: decoder.used_vocab_size]
        self._norm = stack.norm.weight.detach()
        self._layers = [_Layer.of(layer) for layer in stack.layers]

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """What keys and values are computed in."""
        return self._embedding.dtype

    def __call__(
        self, token_ids: Tensor, positions: Tensor, attention: CachedAttention, wanted: Tensor | None = None
    ) -> Tensor:
        """The scores of the tokens that may come next.

        Args:
            token_ids: `[T]`.
            positions: `[T]`: the place of each token in its sequence, from 0.
            attention: Where keys and values come from.
            wanted: `[n]`: of which tokens the scores are wanted; None is all.

        Returns:
            `[n, used_vocab_size]`.
        """
        config, eps = self.config, self.config.rms_norm_eps
        heads = config.num_attention_heads
        rotated = heads + config.num_key_value_heads
        hidden = functional.embedding(token_ids, self._embedding)
        cosine, sine = self._rotation(positions)
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            projected = _product(_normed(hidden, eps), layer.qkv, layer.qkv_bias)
            projected = projected.view(len(token_ids), -1, config.head_dim)
            turned = projected[:, :rotated]
            if layer.query_key_gain is not None:
                turned = _normed(turned, eps) * layer.query_key_gain
            half = turned.roll(config.head_dim // 2, dims=-1)
            projected[:, :rotated] = torch.addcmul(turned * cosine, half, sine)
            new = projected[:, heads:].view(len(token_ids), 2, -1, config.head_dim)
            context = attention(index, projected[:, :heads], new)
            if index == last and wanted is not None:
                context, hidden = context[wanted], hidden[wanted]
            hidden = torch.addmm(hidden, context, layer.output)
            if layer.output_bias is not None:
                hidden = hidden + layer.output_bias
            gate, up = (_normed(hidden, eps) @ layer.gate_up).chunk(2, dim=-1)
            hidden = torch.addmm(hidden, functional.silu(gate) * up, layer.down)
        return functional.linear(_normed(hidden, eps) * self._norm, self._head)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        # RoFormer (arXiv 2104.09864), eq. 34, in the half-split layout; the sign is in the sine.
        width = self.config.head_dim
        exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
        angles = positions[:, None, None].float() * self.config.rope_theta**-exponents
        cosine, sine = angles.cos(), angles.sin()
        return torch.cat((cosine, cosine), dim=-1).to(self.dtype), torch.cat((-sine, sine), dim=-1).to(self.dtype)


class _Layer(NamedTuple):
    """Matrices as `[in, out]`; `query_key_gain` is `[heads + kv_heads, head_dim]`."""

    qkv: Tensor
    qkv_bias: Tensor | None
    query_key_gain: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    gate_up: Tensor
    down: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, module: nn.Module) -> _Layer:
        weights = module.state_dict()
        dtype = weights["mlp.down_proj.weight"].dtype

        def joined(names: tuple[str, ...], gain: str | None = None) -> Tensor:
            matrix = torch.cat([weights[f"{name}.weight"] for name in names])
            if gain is not None:
                matrix = matrix.float() * weights[f"{gain}.weight"].float()
            return matrix.to(dtype).t().contiguous()

        projections = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        biases = [weights[f"{name}.bias"] for name in projections if f"{name}.bias" in weights]
        gains = [
            weights[f"self_attn.{name}.weight"]
            for name in ("q_norm", "k_norm")
            if f"self_attn.{name}.weight" in weights
        ]
        if gains:
            width = len(gains[0])
            counts = [len(weights[f"{name}.weight"]) // width for name in projections[:2]]
            gains = [gain.expand(count, -1) for gain, count in zip(gains, counts, strict=True)]
        return cls(
            qkv=joined(projections, "input_layernorm"),
            qkv_bias=torch.cat(biases) if biases else None,
            query_key_gain=torch.cat(gains) if gains else None,
            output=joined(("self_attn.o_proj",)),
            output_bias=weights.get("self_attn.o_proj.bias"),
            gate_up=joined(("mlp.gate_proj", "mlp.up_proj"), "post_attention_layernorm"),
            down=joined(("mlp.down_proj",)),
        )


def _product(inputs: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    return inputs @ matrix if bias is None else torch.addmm(bias, inputs, matrix)


def _normed(hidden: Tensor, eps: float) -> Tensor:
    """RMSNorm (arXiv 1910.07467), eq. 4, without its gain."""
    if hidden.is_cuda:  # where one kernel does it
        return functional.rms_norm(hidden, hidden.shape[-1:], eps=eps)
    wide = hidden.float()
    return (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True).add_(eps))).to(hidden.dtype)
