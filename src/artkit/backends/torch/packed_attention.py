"""Attention in a micro-batch that is one long row of tokens, where sequences with one prompt share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import HeadCounts

__all__ = ["PackedAttention"]


class PackedAttention:
    """An `Attention` for stems, one behind the other, and then branches, each of which goes on where a stem ends.

    A token sees what is before it in its stem, or in its branch and the whole of that branch's stem: each sequence is
    computed as if it were alone. Only here are sequences padded to one length, and not where they have it anyway.

    Args:
        stems: The length of each stem; at least one, none 0.
        branches: The stem that each branch goes on from, and the branch's length; not 0.
        device: Where the tensors are.
    """

    def __init__(self, stems: Sequence[int], branches: Sequence[tuple[int, int]], device: torch.device) -> None:
        lengths = [length for _, length in branches]
        self._stems = _Rows(stems, device)
        self._branches = _Rows(lengths, device) if branches else None
        self._counts = [sum(stems), sum(lengths)]
        if branches:
            stem_lengths = torch.tensor(stems, device=device)
            self._stem_of = torch.tensor([stem for stem, _ in branches], device=device)
            first, second = self._stems.longest, max(lengths)
            keys, ends = torch.arange(first + second, device=device), torch.arange(first, first + second, device=device)
            seen = (keys <= ends[:, None]) & (keys >= first)
            if min(stems) == first:
                seen = (seen | (keys < first))[None]
            else:
                seen = seen | (keys < stem_lengths[self._stem_of][:, None, None])
            self._mask = torch.zeros(seen.shape, device=device).masked_fill_(~seen, float("-inf"))[:, None]

    def __call__(self, layer: int, projected: Tensor, counts: HeadCounts) -> Tensor:
        """See `Attention`; the batch is one row."""
        del layer
        heads, kv_heads, _ = counts
        # Split, not sliced: the gradient of a slice is filled up with zeros to the length of the whole.
        stems, branches = torch.split(projected[0], self._counts)
        query, past = torch.split(self._stems.padded(stems), [heads, 2 * kv_heads], dim=1)
        key, value = past.chunk(2, dim=1)
        found = self._stems.flat(
            functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=heads != kv_heads)
        )
        if self._branches is not None:
            query, own = torch.split(self._branches.padded(branches), [heads, 2 * kv_heads], dim=1)
            seen = torch.cat((past.index_select(0, self._stem_of), own), dim=2)
            if heads != kv_heads:
                # On CUDA, heads that share keys and a mask together leave only the kernel that keeps all the scores.
                seen = seen.repeat_interleave(heads // kv_heads, dim=1)
            key, value = seen.chunk(2, dim=1)
            self._mask = self._mask.to(query.dtype)
            context = functional.scaled_dot_product_attention(query, key, value, attn_mask=self._mask)
            found = torch.cat((found, self._branches.flat(context)))
        return found.flatten(1)[None]


class _Rows:
    """Runs of tokens, one behind the other, as rows that are padded at their end, and back."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.longest = max(lengths)
        self._is_even = min(lengths) == self.longest
        if not self._is_even:
            starts = [0, *accumulate(lengths[:-1])]
            # Padding is a copy of the first token: whatever it computes, nobody reads.
            places = [
                start + place if place < length else 0
                for start, length in zip(starts, lengths, strict=True)
                for place in range(self.longest)
            ]
            real = [row * self.longest + place for row, length in enumerate(lengths) for place in range(length)]
            self._places, self._real = torch.tensor(places, device=device), torch.tensor(real, device=device)
            padding = sorted(set(range(len(places))).difference(real))
            self._padding = torch.tensor(padding, device=device)

    def padded(self, tokens: Tensor) -> Tensor:
        """`[count, heads, head_dim]` to `[rows, heads, longest, head_dim]`."""
        even: Tensor = tokens if self._is_even else _Padded.apply(tokens, self)  # type: ignore[no-untyped-call]
        return even.view(-1, self.longest, *tokens.shape[1:]).transpose(1, 2)

    def flat(self, rows: Tensor) -> Tensor:
        """And back."""
        tokens = rows.transpose(1, 2).flatten(0, 1)
        real: Tensor = tokens if self._is_even else _Flat.apply(tokens, self)  # type: ignore[no-untyped-call]
        return real

    def spread(self, tokens: Tensor) -> Tensor:
        """`[count, …]` to `[rows * longest, …]`."""
        return tokens.index_select(0, self._places)

    def gathered(self, places: Tensor) -> Tensor:
        """And back."""
        return places.index_select(0, self._real)

    def cleared(self, places: Tensor) -> Tensor:
        """With zeros for padding, in place."""
        return places.index_fill_(0, self._padding, 0.0)


class _Padded(torch.autograd.Function):
    """No gradient comes back to padding, so what `index_select` would add up token by token is another look-up."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        return rows.spread(tokens)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.gathered(gradients[0]), None


class _Flat(torch.autograd.Function):
    """And back."""

    @staticmethod
    def forward(ctx: Any, places: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        return rows.gathered(places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.cleared(ctx.rows.spread(gradients[0])), None
