"""Decoding on CUDA by replaying captured graphs: nearly all of a small model's step is launching kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from artkit.backends.torch.kv_cache import KVCache
    from artkit.backends.torch.served_decoder import ServedDecoder

__all__ = ["DecodeGraphs"]

_WARM_UPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Captured:
    """One graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    token_ids: Tensor
    positions: Tensor
    logits: Tensor


class DecodeGraphs:
    """One step of decoding for a whole batch, captured once for each number of rows and each length that is read.

    Args:
        decoder: The weights.
        cache: Where the rows' past is. Graphs write into its memory: where it grows, they are captured anew.
    """

    def __init__(self, decoder: ServedDecoder, cache: KVCache) -> None:
        self._decoder, self._cache = decoder, cache
        self._graphs: dict[tuple[int, int], _Captured] = {}
        self._memory = cache.address

    def __call__(self, token_ids: list[int], positions: list[int], length: int) -> Tensor:
        """The scores of the tokens that come next, `[n, used_vocab_size]`; they hold until the next call.

        Args:
            token_ids: `n` last tokens.
            positions: `n` places of these in their rows, which are `0 … n-1` of the cache.
            length: How much of the cache is read; more than every position.
        """
        if self._memory != self._cache.address:
            self._graphs.clear()
            self._memory = self._cache.address
        key = len(token_ids), length
        if key not in self._graphs:
            self._graphs[key] = self._capture(*key)
        captured = self._graphs[key]
        captured.token_ids.copy_(torch.tensor(token_ids), non_blocking=True)
        captured.positions.copy_(torch.tensor(positions), non_blocking=True)
        captured.graph.replay()
        return captured.logits

    def _capture(self, rows: int, length: int) -> _Captured:
        device = self._decoder.device
        token_ids = torch.zeros(rows, dtype=torch.long, device=device)
        # Far out of the way of what is stored: the warm-ups write there.
        positions = torch.full((rows,), length - 1, dtype=torch.long, device=device)

        def step() -> Tensor:
            return self._decoder(token_ids, positions, self._cache.attention(0, positions[:, None], length))

        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                step()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = step()
        return _Captured(graph, token_ids, positions, logits)
