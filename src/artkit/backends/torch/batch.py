"""The sequences that one set of weights is generating together."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from artkit.backends.torch.kv_cache import KVCache
from artkit.backends.torch.sampler import SamplingSettings, sample

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["Batch", "Generation"]

# Padded tokens of one pass over prompts, and sequences in flight: bounds of memory.
_PREFILL_TOKENS = 4096
_MAX_ROWS = 512
# Which requests share a pass is a matter of timing, and how a matrix product is rounded is one of its shape. With at
# least so many rows, and lengths that are multiples of the block, each row came out the same to the last bit whatever
# was beside it (MKL on AVX-512, float32; elsewhere it may differ by rounding).
_MIN_ROWS = 16
_LENGTH_BLOCK = 16


@dataclass(slots=True, kw_only=True, eq=False)
class Generation:
    """One reply in the making.

    Attributes:
        prompt_ids: What the reply follows; not empty.
        max_new_tokens: At least 1.
        end_ids: The ids that end the reply; the sampled one is part of it.
        is_stopped: Whether the reply so far contains a stop string; None when there is none.
        random: The request's own generator.
        token_ids: What was sampled so far.
        logprobs: Of each sampled token, under the model at temperature 1.
        finish_reason: None while it runs.
        is_abandoned: Set by whoever asked, when nobody waits for the reply any more.
    """

    prompt_ids: Sequence[int]
    max_new_tokens: int
    end_ids: frozenset[int]
    settings: SamplingSettings
    random: random.Random
    is_stopped: Callable[[Sequence[int]], bool] | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: Literal["stop", "length"] | None = None
    is_abandoned: bool = False

    def append(self, token_id: int, logprob: float) -> None:
        """Add a sampled token, and end the reply if it ends here."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if token_id in self.end_ids or (self.is_stopped is not None and self.is_stopped(self.token_ids)):
            self.finish_reason = "stop"
        elif len(self.token_ids) >= self.max_new_tokens:
            self.finish_reason = "length"


class Batch:
    """Continuous batching: requests join and leave between any two tokens.

    Args:
        decoder: The weights; they must not change while the batch lives.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = KVCache(decoder.config, decoder.device)
        self._waiting: deque[Generation] = deque()
        self._rows: list[Generation] = []
        self._ended: list[Generation] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._rows)

    def generations(self) -> list[Generation]:
        """All that were added and not handed back."""
        return [*self._waiting, *self._rows, *self._ended]

    def add(self, generation: Generation) -> None:
        """Let `generation` join at the next step."""
        self._waiting.append(generation)

    @torch.inference_mode()
    def step(self) -> list[Generation]:
        """Sample one token for everyone who runs, and the first one for whoever waits.

        Returns:
            Those that ended, abandoned ones included.
        """
        for _ in range(len(self._waiting)):
            generation = self._waiting.popleft()
            (self._ended if generation.is_abandoned else self._waiting).append(generation)
        if self._rows:
            self._decode()
        while self._waiting and len(self._rows) < _MAX_ROWS:
            self._prefill(self._take_prompts())
        self._leave()
        ended, self._ended = self._ended, []
        return ended

    def _decode(self) -> None:
        device = self._decoder.device
        idle = [0] * (_MIN_ROWS - len(self._rows))
        last = torch.tensor([row.token_ids[-1] for row in self._rows] + idle, device=device)
        # The last token sampled is not in the cache yet: it goes behind prompt and reply so far.
        places = [len(row.prompt_ids) + len(row.token_ids) - 1 for row in self._rows]
        length = _rounded_up(max(places) + 1)
        self._cache.reserve(len(last), length)
        positions = torch.tensor(places + idle, device=device)
        hidden = self._decoder(last[:, None], positions[:, None], self._cache.decode(positions, length))
        self._append(self._rows, hidden[:, 0])

    def _take_prompts(self) -> list[Generation]:
        taken: list[Generation] = []
        longest = 0
        while self._waiting and len(self._rows) + len(taken) < _MAX_ROWS:
            longest = max(longest, _rounded_up(len(self._waiting[0].prompt_ids)))
            if taken and longest * (len(taken) + 1) > _PREFILL_TOKENS:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _prefill(self, joining: list[Generation]) -> None:
        device = self._decoder.device
        length = _rounded_up(max(len(row.prompt_ids) for row in joining))
        first = len(self._rows)
        self._rows.extend(joining)
        self._cache.reserve(len(self._rows), length)
        padded = torch.tensor(
            [[*row.prompt_ids, *[0] * (length - len(row.prompt_ids))] for row in joining], device=device
        )
        attention = self._cache.prefill(range(first, len(self._rows)))
        hidden = self._decoder(padded, torch.arange(length, device=device)[None], attention)
        idle = [0] * (_MIN_ROWS - len(joining))
        rows = torch.tensor([*range(len(joining)), *idle], device=device)
        ends = torch.tensor([len(row.prompt_ids) - 1 for row in joining] + idle, device=device)
        self._append(joining, hidden[rows, ends])

    def _append(self, rows: list[Generation], hidden: Tensor) -> None:
        logits = self._decoder.logits(hidden)[: len(rows)]
        ids, logprobs = sample(logits, [row.settings for row in rows], [row.random for row in rows])
        for row, token_id, logprob in zip(rows, ids, logprobs, strict=True):
            row.append(token_id, logprob)

    def _leave(self) -> None:
        for index in range(len(self._rows) - 1, -1, -1):
            row = self._rows[index]
            if row.finish_reason is None and not row.is_abandoned:
                continue
            self._ended.append(row)
            last = self._rows.pop()
            if last is not row:
                self._rows[index] = last
                self._cache.move(len(self._rows), index)


def _rounded_up(length: int) -> int:
    return -(-length // _LENGTH_BLOCK) * _LENGTH_BLOCK
