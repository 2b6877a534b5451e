"""Drawing the next tokens of a batch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["SamplingSettings", "draw", "has_limit", "sample"]

_BLOCK = 256
_BELOW_ONE = math.nextafter(1.0, 0.0)
# As in vLLM: what is less takes the likeliest token, before logits divided by it are infinite.
_LEAST_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How one request is sampled.

    Attributes:
        temperature: 0, and anything below 1e-5, takes the likeliest token.
        top_p: The smallest set of likeliest tokens with at least this probability is drawn from.
        top_k: So many likeliest tokens are drawn from, and `top_p` is a share of theirs; 0 is no limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


def sample(
    logits: Tensor, settings: Sequence[SamplingSettings], randoms: Sequence[random.Random]
) -> tuple[list[int], list[float]]:
    """Draw one token per row, by inverting the cumulative distribution.

    Each row draws one number from its own generator, so what a request samples does not depend on its batch mates.

    Args:
        logits: `[n, vocab]`.
        settings: `n` settings.
        randoms: `n` generators, one per request.

    Returns:
        `n` ids, and the log probability of each under the model itself: at temperature 1, before top-k and top-p, which
        is what an importance ratio needs.
    """
    draws = torch.from_numpy(np.array([generator.random() for generator in randoms])).to(logits.device)
    temperatures = None
    if any(row.temperature != 1.0 for row in settings):
        temperatures = torch.tensor([row.temperature for row in settings], device=logits.device)
    ids, logprobs = draw(logits, draws, temperatures, settings if any(map(has_limit, settings)) else None)
    return ids.tolist(), logprobs.tolist()


def has_limit(settings: SamplingSettings) -> bool:
    """Whether only some of the tokens may be drawn."""
    return settings.top_p < 1.0 or settings.top_k > 0


def draw(
    logits: Tensor,
    draws: Tensor,
    temperatures: Tensor | None = None,
    limits: Sequence[SamplingSettings] | None = None,
) -> tuple[Tensor, Tensor]:
    """What `sample` does, on tensors; without limits nothing in it waits for the device.

    Args:
        logits: `[n, vocab]`.
        draws: `[n]`, float64, each at least 0 and below 1.
        temperatures: `[n]`; None is 1 for all.
        limits: Each row's top-k and top-p; None is none at all.

    Returns:
        Ids and log probabilities, `[n]` each.
    """
    logprobs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    if temperatures is None:
        weights = logprobs.exp()
    else:
        is_greedy = temperatures < _LEAST_TEMPERATURE
        warm = temperatures.masked_fill(is_greedy, 1.0)[:, None]
        # A row of temperature 1 draws from the same numbers to the last bit, whatever its batch mates' are.
        weights = torch.where(warm == 1.0, logprobs.exp(), torch.softmax(logits.float() / warm, dim=-1))
    if limits is not None:
        weights = _likeliest(weights, limits)
    ids = _invert(weights, draws[:, None])
    if temperatures is not None:
        ids = torch.where(is_greedy[:, None], logits.argmax(dim=-1, keepdim=True), ids)
    return ids[:, 0], logprobs.gather(1, ids)[:, 0]


def _invert(weights: Tensor, draws: Tensor) -> Tensor:
    """The first id of each row whose cumulative weight exceeds the row's draw, a share of the sum: `[n, 1]`.

    Sums are in float64: the last of many thousand small probabilities must not be rounded away. A large vocabulary is
    summed in blocks, and then only the block that the draw falls into.
    """
    vocab = weights.shape[1]
    if vocab <= 2 * _BLOCK:
        return _first_beyond(weights.cumsum(dim=-1, dtype=torch.float64), draws)
    blocks = functional.pad(weights, (0, -vocab % _BLOCK)).view(len(weights), -1, _BLOCK)
    sums = blocks.sum(dim=-1, dtype=torch.float64)
    cumulative = sums.cumsum(dim=-1)
    block = _first_beyond(cumulative, draws)
    # Where in its block the draw is, as a share of the block.
    beyond = cumulative.gather(1, block) - draws * cumulative[:, -1:]
    inside = (1.0 - beyond / sums.gather(1, block)).clamp(0.0, _BELOW_ONE)
    members = blocks[torch.arange(len(blocks), device=weights.device), block[:, 0]]
    ids = block * _BLOCK + _first_beyond(members.cumsum(dim=-1, dtype=torch.float64), inside)
    return ids.clamp_(max=vocab - 1)


def _first_beyond(cumulative: Tensor, draws: Tensor) -> Tensor:
    # `right`: an entry of weight zero is never the first whose cumulative weight exceeds the draw.
    places = torch.searchsorted(cumulative, draws * cumulative[:, -1:], right=True)
    return places.clamp_(max=cumulative.shape[1] - 1)


def _likeliest(weights: Tensor, settings: Sequence[SamplingSettings]) -> Tensor:
    """The weights of each row's top-k and top-p, zero elsewhere: top-k first, as vLLM does.

    Source: Holtzman et al., "The Curious Case of Neural Text Degeneration", section 3.1 (top-p).
    """
    device, vocab = weights.device, weights.shape[1]
    # Without a limit nothing may be lost to rounding either: what a request draws must not depend on its batch mates.
    top_k = torch.tensor([min(row.top_k or vocab, vocab) for row in settings], device=device)
    top_p = torch.tensor(
        [row.top_p if row.top_p < 1.0 else math.inf for row in settings], dtype=torch.float64, device=device
    )
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    ordered = torch.where(torch.arange(vocab, device=device) < top_k[:, None], ordered, 0.0)
    cumulative = ordered.cumsum(dim=-1, dtype=torch.float64)
    kept = torch.where(cumulative - ordered < (top_p * cumulative[:, -1])[:, None], ordered, 0.0)
    return torch.zeros_like(weights).scatter(1, order, kept)
