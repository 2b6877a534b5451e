"""A decoder's weights, copied and laid out for sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from artkit.backends.torch.frozen_products import DenseProduct, FrozenProduct, PackedProduct, pays_packing
from artkit.backends.torch.products import over_layers
from artkit.backends.torch.rotary import paired

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["ServedLayer", "ServedWeights"]

# With so many rows each product comes out the same whatever the other rows are: of the BLAS, and of packed matrices.
_DENSE_ROWS, _PACKED_ROWS = 16, 2


class ServedLayer(NamedTuple):
    """Products of the same input are one, queries and keys lie in pairs, and gains are part of the matrix behind them.

    `query_key_gain` is `[heads + kv_heads, head_dim]`.
    """

    qkv: FrozenProduct
    qkv_bias: Tensor | None
    query_key_gain: Tensor | None
    output: FrozenProduct
    output_bias: Tensor | None
    gate_up: FrozenProduct
    down: FrozenProduct


class ServedWeights:
    """What a `ServedDecoder` computes with.

    Attributes:
        embedding: `[vocab_size, hidden_size]`.
        layers: The layers, first to last.
        norm: The gain of the last norm, `[hidden_size]`.
        head: Makes scores, `[n, used_vocab_size]`, of what is normed.
        least_rows: See `ServedDecoder.least_rows`.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder) -> None:
        # All that is not packed, and what the rest are views of.
        self._tensors: list[Tensor] = []
        self.embedding = self._kept(decoder.model.embed_tokens.weight)
        self.norm = self._kept(decoder.model.norm.weight)
        self.layers = self._lay_out(decoder)
        self.head = self._head(decoder)
        products = [self.head, *(part for layer in self.layers for part in layer)]
        self.least_rows = _DENSE_ROWS if any(isinstance(part, DenseProduct) for part in products) else _PACKED_ROWS

    def copy(self, other: ServedWeights) -> None:
        """Take over weights of the same shape, in the memory that these have; none may be packed."""
        for old, new in zip(self._tensors, other._tensors, strict=True):
            old.copy_(new)

    def _kept(self, tensor: Tensor) -> Tensor:
        self._tensors.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return self._tensors[-1]

    def _head(self, decoder: Decoder) -> FrozenProduct:
        used = (self.embedding if decoder.lm_head is None else decoder.lm_head.weight)[: decoder.used_vocab_size]
        if pays_packing(used):
            return PackedProduct(used)
        return DenseProduct((used if decoder.lm_head is None else self._kept(used)).T)

    def _lay_out(self, decoder: Decoder) -> list[ServedLayer]:
        """Each kind of weight for all layers at once."""
        config, layers = decoder.config, decoder.model.layers
        width, heads, kv_heads = config.head_dim, config.num_attention_heads, config.num_key_value_heads

        def vectors(name: str) -> Tensor:
            return torch.stack([layer.get_parameter(name) for layer in layers])

        def products(group: str, gain: str | None = None, order: Tensor | None = None) -> list[FrozenProduct]:
            def with_gain(weights: Tensor, run: slice) -> Tensor:
                laid = weights if order is None else weights.index_select(1, order)
                return laid if gain is None else (laid.float() * vectors(gain)[run, None].float()).to(weights.dtype)

            matrices = over_layers(decoder, group, with_gain)
            if pays_packing(matrices[0]):
                return [PackedProduct(matrix) for matrix in matrices]
            return [DenseProduct(matrix) for matrix in self._kept(matrices.transpose(1, 2))]

        order = torch.arange((heads + 2 * kv_heads) * width, device=decoder.device)
        turned = order[: (heads + kv_heads) * width]
        turned.copy_(paired(turned, width))
        none: list[Tensor | None] = [None] * len(layers)
        qkv_bias = output_bias = gain = none
        if config.qkv_bias:
            biases = torch.cat([vectors(f"self_attn.{name}_proj.bias") for name in "qkv"], dim=1)
            qkv_bias = list(self._kept(biases.index_select(1, order)))
        if config.output_bias:
            output_bias = list(self._kept(vectors("self_attn.o_proj.bias")))
        if config.query_key_norm:
            gains = [vectors(f"self_attn.{name}_norm.weight").index_select(1, order[:width]) for name in "qk"]
            counts = torch.tensor([heads, kv_heads], device=decoder.device)
            gain = list(self._kept(torch.stack(gains, dim=1).repeat_interleave(counts, dim=1)))
        parts = (
            products("query_key_value", "input_layernorm.weight", order),
            qkv_bias,
            gain,
            products("output"),
            output_bias,
            products("gate_up", "post_attention_layernorm.weight"),
            products("down"),
        )
        return [ServedLayer(*of_layer) for of_layer in zip(*parts, strict=True)]
