"""A decoder's frozen weights, laid out for sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from artkit.backends.torch.rotary import rotation_table
from artkit.backends.torch.served_weights import ServedWeights

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["CachedAttention", "ServedDecoder"]


class CachedAttention(Protocol):
    """How new tokens meet the past of their rows; called once per layer and pass.

    Takes the queries of `T` tokens, `[T, heads, head_dim]`, and their keys and values, `[T, 2, kv_heads, head_dim]`;
    returns `[T, heads * head_dim]`. What lies behind its own tokens is padding, and comes back as zeros.
    """

    def __call__(self, layer: int, query: Tensor, new: Tensor) -> Tensor: ...


class ServedDecoder:
    """The same function as `Decoder`, in fewer and faster operations, for weights that do not change.

    Products of the same input are one product, its matrix laid out as it is read, and gains are part of the matrix
    behind them. All of it is a copy: what happens to the decoder later changes nothing here, and it may go.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.config, self.used_vocab_size = decoder.config, decoder.used_vocab_size
        self._weights = ServedWeights(decoder)
        config, device = self.config, self.device
        # The eps as a tensor: an operation that takes a number for it would make one each time.
        self._eps = torch.tensor(config.rms_norm_eps, device=device)
        window = config.max_position_embeddings
        self._rotations = rotation_table(window, config.head_dim, config.rope_theta, device)

    def fits(self, decoder: Decoder) -> bool:
        """Whether `load` can take these weights."""
        weight = decoder.model.embed_tokens.weight
        return (decoder.config, decoder.used_vocab_size, weight.device, weight.dtype) == (
            self.config,
            self.used_vocab_size,
            self.device,
            self.dtype,
        )

    def load(self, decoder: Decoder) -> None:
        """Take over the weights of a decoder of the same shape; on CUDA into the memory that these have."""
        weights = ServedWeights(decoder)
        if self.device.type == "cpu":
            self._weights = weights
        else:
            self._weights.copy(weights)

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self._weights.embedding.device

    @property
    def least_rows(self) -> int:
        """With so many tokens in a pass, and as many scores wanted, each comes out the same whatever the others are.

        That is to the last bit; with fewer, how a product is rounded may depend on how many there are.
        """
        return self._weights.least_rows

    @property
    def dtype(self) -> torch.dtype:
        """What keys and values are computed in."""
        return self._weights.embedding.dtype

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
        weights, width = self._weights, self.config.head_dim
        heads = self.config.num_attention_heads
        turned = (heads + self.config.num_key_value_heads) * width
        hidden = functional.embedding(token_ids, weights.embedding)
        # What is padded may lie beyond the window; nobody reads what comes of it.
        rotation = self._rotations.index_select(0, positions.clamp(max=len(self._rotations) - 1))
        last = len(weights.layers) - 1
        for index, layer in enumerate(weights.layers):
            projected = layer.qkv(self._normed(hidden), layer.qkv_bias)
            if layer.query_key_gain is not None:
                queries_keys = projected[:, :turned].view(len(token_ids), -1, width)
                queries_keys.copy_(self._normed(queries_keys) * layer.query_key_gain)
            _turn(projected[:, :turned], rotation)
            projected = projected.view(len(token_ids), -1, width)
            new = projected[:, heads:].view(len(token_ids), 2, -1, width)
            context = attention(index, projected[:, :heads], new)
            if index == last and wanted is not None:
                context, hidden = context[wanted], hidden[wanted]
            layer.output.add_to(hidden, context)
            if layer.output_bias is not None:
                hidden.add_(layer.output_bias)
            gate, up = layer.gate_up(self._normed(hidden)).chunk(2, dim=-1)
            layer.down.add_to(hidden, functional.silu(gate).mul_(up))
        return weights.head(self._normed(hidden) * weights.norm)

    def _normed(self, hidden: Tensor) -> Tensor:
        """RMSNorm (arXiv 1910.07467), eq. 4, without its gain."""
        if hidden.is_cuda:  # where one kernel does it
            return functional.rms_norm(hidden, hidden.shape[-1:], eps=self.config.rms_norm_eps)
        norms = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True, dtype=torch.float32)
        return (hidden * torch.addcmul(self._eps, norms, norms, value=1 / hidden.shape[-1]).rsqrt_()).to(hidden.dtype)


def _turn(queries_keys: Tensor, rotation: Tensor) -> None:
    """Turn the pairs of `[T, heads * head_dim]`, in place."""
    pairs = queries_keys.view(len(queries_keys), -1, rotation.shape[-1], 2)
    wide = pairs.float()
    torch.view_as_complex(wide).mul_(rotation)
    if wide is not pairs:
        pairs.copy_(wide)
