"""Scoring on CUDA, and the way back, by replaying captured graphs."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from artkit.backends.torch.buckets import fine_bucket
from artkit.backends.torch.cuda_graphs import captured, warm_up

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.token_batch import TokenBatch

__all__ = ["ScoreGraphs"]

_log = logging.getLogger(__name__)

_MAX_GRAPHS = 32
_LEAST_TARGETS = 256

_Key = tuple[int, int, int]


class ScoreGraphs:
    """`TokenBatch.score`, captured for each shape of a grid that comes back; other batches are scored as they are.

    One batch after the other is scored and gone back through: graphs share their memory.

    Args:
        decoder: What is trained; its parameters stay where they are.
        dtype: As in `TokenBatch.score`.
    """

    def __init__(self, decoder: Decoder, dtype: torch.dtype) -> None:
        self._decoder, self._dtype = decoder, dtype
        self._parameters = _trained(decoder)
        # Leaves of their own: whatever is alive of a pass that was not captured belongs to another stream.
        self._alias = decoder.alias()
        self._graphs: OrderedDict[_Key, _Captured] = OrderedDict()
        self._seen: set[_Key] = set()
        self._pool = torch.cuda.graph_pool_handle()
        # Written by whichever graph is replayed.
        self._gradients: list[Tensor] = []
        self._has_room = True

    def __call__(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """See `TokenBatch.score`."""
        if batch.grid is None:
            return batch.score(self._decoder, self._dtype)
        count = len(batch.targets)
        key = (*batch.grid, fine_bucket(count, _LEAST_TARGETS))
        chosen = self._find(key, batch)
        if chosen is None:
            return batch.score(self._decoder, self._dtype)
        chosen.read(batch)
        logprobs, entropies = _Replayed.apply(chosen, *self._parameters)  # type: ignore[no-untyped-call]
        return logprobs[:count], entropies[:count]

    def _find(self, key: _Key, batch: TokenBatch) -> _Captured | None:
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        # A capture takes as long as some passes, and many a shape comes but once.
        if key not in self._seen or not self._has_room:
            self._seen.add(key)
            return None
        if len(self._graphs) == _MAX_GRAPHS:
            self._seen.discard(self._graphs.popitem(last=False)[0])
        try:
            self._graphs[key] = self._capture(batch, key[-1])
        except torch.OutOfMemoryError:
            _log.warning(
                "no memory to capture a pass of training: passes are launched one by one from now on, which is slower; "
                "a smaller micro_batch_tokens leaves room"
            )
            # What was captured holds memory that a pass by itself may do with.
            self._graphs.clear()
            self._has_room = False
            return None
        return self._graphs[key]

    def _capture(self, batch: TokenBatch, count: int) -> _Captured:
        # What is beyond the targets looks up any token; its gradient is zero.
        padding = (0, count - len(batch.targets))
        inputs = replace(
            batch,
            token_ids=batch.token_ids.clone(),
            sources=functional.pad(batch.sources, padding),
            targets=functional.pad(batch.targets, padding),
        )
        device = batch.targets.device
        gradient = torch.zeros(count, device=device)
        if not self._gradients:
            self._gradients = [torch.empty_like(value) for value in self._parameters]

        def forward() -> tuple[Tensor, Tensor]:
            return inputs.score(self._alias, self._dtype)

        def backward(logprobs: Tensor) -> None:
            found = torch.autograd.grad(logprobs, _trained(self._alias), gradient)
            for kept, value in zip(self._gradients, found, strict=True):
                kept.copy_(value)

        warm_up(lambda: backward(forward()[0]), device, times=1)
        there, (logprobs, entropies) = captured(forward, device, self._pool)
        back, _ = captured(lambda: backward(logprobs), device, self._pool)
        return _Captured(
            inputs=inputs,
            there=there,
            logprobs=logprobs.detach(),
            entropies=entropies,
            gradient=gradient,
            back=back,
            gradients=self._gradients,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Captured:
    """Two graphs, and the tensors that they read and write."""

    inputs: TokenBatch
    there: torch.cuda.CUDAGraph
    logprobs: Tensor
    entropies: Tensor
    gradient: Tensor
    back: torch.cuda.CUDAGraph
    gradients: list[Tensor]

    def read(self, batch: TokenBatch) -> None:
        count = len(batch.targets)
        self.inputs.token_ids.copy_(batch.token_ids)
        self.inputs.sources[:count] = batch.sources
        self.inputs.targets[:count] = batch.targets


class _Replayed(torch.autograd.Function):
    """What comes out is a copy: the next replay writes over it."""

    @staticmethod
    def forward(ctx: Any, chosen: _Captured, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        del parameters
        ctx.chosen = chosen
        chosen.there.replay()
        logprobs, entropies = chosen.logprobs.clone(), chosen.entropies.clone()
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        chosen: _Captured = ctx.chosen
        chosen.gradient.copy_(gradients[0])
        chosen.back.replay()
        return None, *(gradient.clone() for gradient in chosen.gradients)


def _trained(decoder: Decoder) -> list[Parameter]:
    return [value for value in decoder.parameters() if value.requires_grad]
