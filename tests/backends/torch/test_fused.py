"""What is between the products, against the same in plain operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from artkit.backends.torch.frozen_head import score_tokens
from artkit.backends.torch.fused import gated, normed, rotated


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (
            lambda x: normed(x, random(8, seed=1), 1e-5),
            lambda x: functional.rms_norm(x, (8,), random(8, seed=1), 1e-5),
        ),
        (
            lambda x: rotated(x[None], (random(1, 5, 1, 4, seed=1), random(1, 5, 1, 4, seed=2)), 2),
            lambda x: torch.cat(
                (turned(x[None, :, :2], random(1, 5, 1, 4, seed=1), random(1, 5, 1, 4, seed=2)), x[None, :, 2:]), dim=2
            ),
        ),
        (gated, lambda x: functional.silu(x[..., :4]) * x[..., 4:]),
    ],
    ids=["normed", "rotated", "gated"],
)
def test_forward_and_back_are_those_of_plain_operations(
    ours: Callable[[Tensor], Tensor], plain: Callable[[Tensor], Tensor]
) -> None:
    """The gradients are written by hand."""
    inputs = random(5, 3, 8).requires_grad_()
    results = [of(inputs) for of in (ours, plain)]
    gradients = [torch.autograd.grad((result * random(*result.shape, seed=3)).sum(), inputs)[0] for result in results]

    torch.testing.assert_close(*results)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("elements", [1, 40, 1 << 22])
def test_a_frozen_head_scores_as_a_softmax_does(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tokens are scored at once, one at least."""
    monkeypatch.setattr("artkit.backends.torch.frozen_head._ELEMENTS", {"cpu": elements})
    hidden, head, targets = random(7, 8).requires_grad_(), random(19, 8, seed=1), torch.arange(7)
    logprobs, entropies = score_tokens(hidden, head, targets)
    all_logprobs = torch.log_softmax(hidden @ head.t(), dim=-1)
    chosen = all_logprobs[torch.arange(7), targets]
    gradients = [torch.autograd.grad((of * random(7, seed=2)).sum(), hidden)[0] for of in (logprobs, chosen)]

    torch.testing.assert_close(logprobs, chosen)
    torch.testing.assert_close(entropies, -(all_logprobs.exp() * all_logprobs).sum(dim=-1).detach())
    torch.testing.assert_close(*gradients)
