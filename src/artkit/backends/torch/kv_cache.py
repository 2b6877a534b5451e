"""The keys and values of the sequences that are being generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from artkit.backends.torch.decoder import Attention, causal_attention

if TYPE_CHECKING:
    from artkit.backends.torch.decoder_config import DecoderConfig

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of a batch, one row per sequence, rows kept dense.

    Rows `0 … n-1` are in use: a step reads a slice, never a gather. A sequence that leaves gives its row to the last
    one (`move`). Rows and length grow by doubling, so memory follows what is in flight.

    Args:
        config: The decoder's shape.
        device: Where the tensors live.
    """

    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        self._config, self._device = config, device
        self._rows, self._length = 0, 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` sequences of `length` tokens; what is stored stays."""
        if rows <= self._rows and length <= self._length:
            return
        old_rows, old_length = self._rows, self._length
        self._rows = max(old_rows, _next_power_of_two(rows))
        self._length = max(old_length, _next_power_of_two(length))
        shape = (self._rows, self._config.num_key_value_heads, self._length, self._config.head_dim)
        for tensors in (self._keys, self._values):
            grown = [torch.zeros(shape, device=self._device) for _ in range(self._config.num_hidden_layers)]
            for new, old in zip(grown, tensors, strict=False):
                new[:old_rows, :, :old_length] = old
            tensors[:] = grown

    def move(self, source: int, target: int) -> None:
        """Copy row `source` over row `target`."""
        for tensor in (*self._keys, *self._values):
            tensor[target] = tensor[source]

    def prefill(self, rows: Sequence[int]) -> Attention:
        """Attention over whole prompts that also stores them in `rows`, from position 0."""
        index = torch.tensor(rows, device=self._device)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            tokens = key.shape[2]
            self._keys[layer][index, :, :tokens] = key
            self._values[layer][index, :, :tokens] = value
            return causal_attention(layer, query, key, value)

        return attend

    def decode(self, positions: Tensor, length: int) -> Attention:
        """Attention of one new token per row over that row's past.

        Args:
            positions: `[n]`: the place of the new token in each of the rows `0 … n-1`.
            length: How much of the cache is read; more than every position.
        """
        count = len(positions)
        rows = torch.arange(count, device=self._device)
        visible = (torch.arange(length, device=self._device) <= positions[:, None])[:, None, None, :]

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            self._keys[layer][rows, :, positions] = key[:, :, 0]
            self._values[layer][rows, :, positions] = value[:, :, 0]
            return functional.scaled_dot_product_attention(
                query,
                self._keys[layer][:count, :, :length],
                self._values[layer][:count, :, :length],
                attn_mask=visible,
                enable_gqa=query.shape[1] != key.shape[1],
            )

        return attend


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
