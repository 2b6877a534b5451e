"""The keys and values of the sequences that are being generated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from artkit.backends.torch.buckets import fine_bucket

if TYPE_CHECKING:
    from artkit.backends.torch.decoder_config import DecoderConfig
    from artkit.backends.torch.served_decoder import CachedAttention

__all__ = ["ANY_LENGTH", "KVCache"]

ANY_LENGTH = 192
"""Up to so many tokens, attention on a CPU comes out the same however many more are read and masked."""

# What is read for the first token beyond.
_LEAST_SPAN = 256


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
            positions: `[n, t]`: the place of each new token in its row, one behind the other.
            length: How much of the cache is read; more than every position that is not padding.
        """
        count, tokens = positions.shape
        places = (self._row_starts[first : first + count, None] + positions).flatten()
        parts = [
            _Part(
                rows,
                span,
                torch.where(self._numbers[:read] <= positions[rows, None, span, None], 0.0, -math.inf).to(self._dtype),
            )
            for rows, span, read in self._spans(positions, length)
        ]

        def attend(layer: int, query: Tensor, new: Tensor) -> Tensor:
            cache = self._tokens[layer]
            cache.flatten(0, 1).index_copy_(0, places, new[: len(places)])
            past, queries = cache[first : first + count], query[: len(places)].view(count, tokens, *query.shape[1:])
            if len(parts) == 1:
                context = parts[0].attend(queries, past).flatten(0, 1)
                idle = len(query) - len(context)
                return functional.pad(context, (0, 0, 0, idle)) if idle else context
            context = query.new_zeros(len(query), query.shape[1] * query.shape[2])
            for part in parts:
                context[: len(places)].view(count, tokens, -1)[part.rows, part.tokens] = part.attend(queries, past)
            return context

        return attend

    def _spans(self, positions: Tensor, length: int) -> Iterator[tuple[slice, slice, int]]:
        """Which tokens of which rows meet how much of their past, in one operation each.

        How a sum is rounded depends on how many are summed, zeros included, once they are more than `ANY_LENGTH`. So on
        a CPU as much is read for a token beyond as its place says, whatever is beside it.
        """
        count, tokens = positions.shape
        if self._device.type != "cpu" or tokens == 1 or length <= ANY_LENGTH:
            yield slice(count), slice(tokens), length
            return
        starts = positions[:, 0].tolist()
        at_once = count if len(set(starts)) == 1 else 1
        for some in [slice(row, row + at_once) for row in range(0, count, at_once)]:
            start = begin = starts[some][0]
            while begin < min(start + tokens, length):
                end = fine_bucket(begin + 1, _LEAST_SPAN) if begin >= ANY_LENGTH else ANY_LENGTH
                yield some, slice(begin - start, min(end - start, tokens)), end
                begin = end


class _Part(NamedTuple):
    """Some new tokens of some rows; `mask` is `[n, 1, t, read]`."""

    rows: slice
    tokens: slice
    mask: Tensor

    def attend(self, queries: Tensor, past: Tensor) -> Tensor:
        """Of all new tokens, `[n, t, heads, head_dim]`, and rows, `[n, tokens, 2, kv_heads, head_dim]`, its own.

        Returns:
            `[n, t, heads * head_dim]`.
        """
        query = queries[self.rows, self.tokens].transpose(1, 2)
        key, value = past[self.rows, : self.mask.shape[-1]].permute(2, 0, 3, 1, 4)
        if query.shape[2] > 1 and query.is_cuda and query.shape[1] != key.shape[1]:
            # As in `PackedAttention`: what takes shared heads with a mask keeps all scores, or plans for the shape.
            key, value = (tokens.repeat_interleave(query.shape[1] // tokens.shape[1], dim=1) for tokens in (key, value))
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self.mask, enable_gqa=query.shape[1] != key.shape[1]
        )
        return context.transpose(1, 2).flatten(2)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
