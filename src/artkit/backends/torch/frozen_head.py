"""What a frozen output head says of tokens, without keeping the scores of the whole vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["score_tokens"]

# Of the scores that are there at once: few for a CPU's cache, many for a GPU, which wants few kernels.
_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 28}


def score_tokens(hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The log probability of each target and the entropy where it was drawn, `[n]` each, in float32.

    Args:
        hidden: `[n, hidden_size]`; the log probabilities, not the entropies, have a gradient to it.
        head: `[vocab, hidden_size]`; no gradient of it is made.
        targets: `[n]`.
    """
    logprobs, entropies = _Scored.apply(hidden, head, targets)  # type: ignore[no-untyped-call]
    return logprobs, entropies


class _Scored(torch.autograd.Function):
    """The gradient to the hidden states is `head[target] - softmax @ head`, times one number for each token.

    So it is made where the scores are, a few tokens at a time, and they are overwritten.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        count, vocab = len(hidden), len(head)
        logprobs, entropies = hidden.new_empty(2, count, dtype=torch.float32)
        slopes = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        length = min(count, max(1, _ELEMENTS[hidden.device.type] // vocab))
        scores, odds = hidden.new_empty(length, vocab), hidden.new_empty(length, vocab, dtype=torch.float32)
        for start in range(0, count, length):
            rows = slice(start, start + length)
            some, ids = hidden[rows], targets[rows]
            above = torch.mm(some, head.t(), out=scores[: len(some)]).float()
            above -= above.amax(dim=-1, keepdim=True)
            exps = torch.exp(above, out=odds[: len(some)])
            sums = exps.sum(dim=-1)
            logs = sums.log()
            logprobs[rows] = above.gather(1, ids[:, None])[:, 0] - logs
            entropies[rows] = logs - above.mul_(exps).sum(dim=-1) / sums
            if slopes is not None:
                expected = exps.to(head.dtype) @ head
                slopes[rows] = head.index_select(0, ids) - expected / sums[:, None]
        ctx.mark_non_differentiable(entropies)
        ctx.save_for_backward(slopes)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return (slopes * gradients[0][:, None]).to(slopes.dtype), None, None
