"""The keys and values of the sequences that are being generated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from artkit.backends.torch.decoder_config import DecoderConfig
    from artkit.backends.torch.served_decoder import CachedAttention

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of a batch, one row per sequence, rows kept dense.

    Rows `0 … n-1` are in use: a step reads a slice, never a gather. A sequence that leaves gives its row to the last
    one (`copy`). Rows and length grow by doubling, so memory follows what is in flight.

    Args:
        config: The decoder's shape.
        device: Where the tensors live.
        dtype: Of keys and values.
    """

    def __init__(self, config: DecoderConfig, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        heads = (2, config.num_key_value_heads, config.head_dim)
        # [layers, rows, tokens, key and value, heads, head_dim]: what is new of a token is one stretch of memory.
        self._hold(torch.zeros((config.num_hidden_layers, 0, 0, *heads), device=device, dtype=dtype))

    def _hold(self, tokens: Tensor) -> None:
        _, rows, length, *_ = tokens.shape
        self._tokens = tokens
        self._numbers = torch.arange(length, device=self._device)
        self._row_starts = torch.arange(rows, device=self._device) * length

    @property
    def address(self) -> int:
        """Where the memory is: another one once it has grown."""
        return self._tokens.data_ptr()

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` sequences of `length` tokens; what is stored stays."""
        layers, old_rows, old_length, *heads = self._tokens.shape
        if rows <= old_rows and length <= old_length:
            return
        shape = (layers, max(old_rows, _next_power_of_two(rows)), max(old_length, _next_power_of_two(length)), *heads)
        grown = torch.zeros(shape, device=self._device, dtype=self._dtype)
        grown[:, :old_rows, :old_length] = self._tokens
        self._hold(grown)

    def copy(self, sources: Sequence[int], targets: Sequence[int], length: int | None = None) -> None:
        """Copy the first `length` tokens of some rows over other rows; None is all."""
        for source, target in zip(sources, targets, strict=True):
            self._tokens[:, target, :length] = self._tokens[:, source, :length]

    def read(self, row: int, start: int, end: int) -> Tensor:
        """A copy of a row's tokens `start … end-1`: `[layers, tokens, 2, heads, head_dim]`."""
        return self._tokens[:, row, start:end].clone()

    def write(self, row: int, tokens: Tensor) -> None:
        """Put what `read` returned at the beginning of a row."""
        self._tokens[:, row, : tokens.shape[1]] = tokens

    def attention(self, first: int, positions: Tensor, length: int) -> CachedAttention:
        """Attention of new tokens over the past of their rows and over each other; it stores them, too.

        Args:
            first: The rows are `first … first+n-1`.
            positions: `[n, t]`: the place of each new token in its row.
            length: How much of the cache is read; more than every position.
        """
        count, tokens = positions.shape
        rows = slice(first, first + count)
        places = (self._row_starts[rows, None] + positions).flatten()
        mask = torch.where(self._numbers[:length] <= positions[:, None, :, None], 0.0, -math.inf).to(self._dtype)

        def attend(layer: int, query: Tensor, new: Tensor) -> Tensor:
            cache = self._tokens[layer]
            cache.flatten(0, 1).index_copy_(0, places, new)
            key, value = cache[rows, :length].permute(2, 0, 3, 1, 4)
            if tokens > 1 and query.is_cuda and query.shape[1] != key.shape[1]:
                # As in `PackedAttention`: what takes shared heads with a mask keeps all scores, or plans for the shape.
                key, value = (past.repeat_interleave(query.shape[1] // past.shape[1], dim=1) for past in (key, value))
            context = functional.scaled_dot_product_attention(
                query.view(count, tokens, *query.shape[1:]).transpose(1, 2),
                key,
                value,
                attn_mask=mask,
                enable_gqa=query.shape[1] != key.shape[1],
            )
            return context.transpose(1, 2).reshape(count * tokens, -1)

        return attend


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
