"""Decoding on CUDA by replaying captured graphs: nearly all of a small model's step is launching kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from artkit.backends.torch.cuda_graphs import captured, warm_up
from artkit.backends.torch.sampler import draw

if TYPE_CHECKING:
    from torch import Tensor

    from artkit.backends.torch.kv_cache import KVCache
    from artkit.backends.torch.served_decoder import ServedDecoder

__all__ = ["DecodeGraphs", "Decoded"]

_WARM_UPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """One step of a batch, on the device; it holds until the next.

    Attributes:
        logits: `[n, used_vocab_size]`.
        drawn: `[2, n]`, float64: ids, and log probabilities at temperature 1, where all tokens may be drawn.
    """

    logits: Tensor
    drawn: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Captured:
    """One graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    outputs: Decoded


class DecodeGraphs:
    """One step of decoding and drawing for a whole batch, captured once for each number of rows and each length.

    Where all rows have temperature 1, as in training, what others need is left out.

    Args:
        decoder: The weights.
        cache: Where the rows' past is. Graphs write into its memory: where it grows, they are captured anew.
    """

    def __init__(self, decoder: ServedDecoder, cache: KVCache) -> None:
        self._decoder, self._cache = decoder, cache
        self._graphs: dict[tuple[int, int, bool], _Captured] = {}
        self._memory = cache.address

    def __call__(self, inputs: Tensor, length: int) -> Decoded:
        """Go one token further.

        Args:
            inputs: `[4, n]`, float64, on the CPU: the last tokens, their places in their rows (which are `0 … n-1` of
                the cache), numbers of at least 0 and below 1 to draw with, and temperatures.
            length: How much of the cache is read; more than every position.
        """
        if self._memory != self._cache.address:
            self._graphs.clear()
            self._memory = self._cache.address
        key = inputs.shape[1], length, bool((inputs[3] == 1.0).all())
        if key not in self._graphs:
            self._graphs[key] = self._capture(*key)
        chosen = self._graphs[key]
        chosen.inputs.copy_(inputs.pin_memory(), non_blocking=True)
        chosen.graph.replay()
        return chosen.outputs

    def _capture(self, rows: int, length: int, is_plain: bool) -> _Captured:
        device = self._decoder.device
        # Far out of the way of what is stored: the warm-ups write there.
        values = ([0.0] * rows, [length - 1.0] * rows, [0.0] * rows, [1.0] * rows)
        inputs = torch.tensor(values, dtype=torch.float64, device=device)

        def step() -> Decoded:
            token_ids, positions = inputs[:2].long()
            attention = self._cache.attention(0, positions[:, None], length)
            logits = self._decoder(token_ids, positions, attention)
            ids, logprobs = draw(logits, inputs[2], None if is_plain else inputs[3].float())
            return Decoded(logits, torch.stack((ids.double(), logprobs.double())))

        warm_up(step, device, times=_WARM_UPS)
        graph, outputs = captured(step, device)
        return _Captured(graph, inputs, outputs)
