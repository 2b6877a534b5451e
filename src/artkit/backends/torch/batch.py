"""The sequences that one set of weights is generating together."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from artkit.backends.torch.attention_kernels import for_any_shape
from artkit.backends.torch.buckets import bucket, fine_bucket
from artkit.backends.torch.decode_graphs import DecodeGraphs
from artkit.backends.torch.kv_cache import ANY_LENGTH, KVCache
from artkit.backends.torch.prefix_cache import BLOCK, PrefixCache
from artkit.backends.torch.sampler import SamplingSettings, has_limit, sample
from artkit.backends.torch.served_decoder import ServedDecoder

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder

__all__ = ["Batch", "Generation"]

# Padded tokens of one pass over prompts, and sequences in flight: bounds of memory. A GPU wants long passes.
_PREFILL_TOKENS = {"cpu": 4096, "cuda": 32_768}
_MAX_ROWS = 512
# Which requests share a pass is a matter of timing, and how a product is rounded is one of its shape. On one thread of
# a CPU, in float32, each row comes out the same to the last bit, whatever is beside it and whatever is found of its
# prompt, as far as benchmarks/batch_mates.py can tell: with at least `ServedDecoder.least_rows`, with a multiple of a
# block read of every row, and with a multiple of a block, and more than one token, of each prompt that is longer than
# `ANY_LENGTH`. On several threads attention for one token differs in the last bit by which of them computes it.
# The least length that a captured step of decoding reads.
_GRAPH_LENGTH = 128
# Of prompts that were computed before.
_PREFIX_BYTES = 256 * 2**20


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


@dataclass(slots=True, kw_only=True, eq=False)
class _Prompt:
    """A prompt to compute, what is known of it, and who asked for it."""

    ids: tuple[int, ...]
    found: list[Tensor]
    rows: list[Generation] = field(default_factory=list)

    @property
    def start(self) -> int:
        """How many tokens were found."""
        return BLOCK * len(self.found)


class Batch:
    """Continuous batching: requests join and leave between any two tokens.

    A prompt that begins as an earlier one did is computed from where they differ: the members of a group have one
    prompt, and a later turn's prompt begins with that of the turn before.

    Args:
        decoder: The weights; they must not change while the batch lives, which does not keep the decoder itself.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = ServedDecoder(decoder)
        self._prefixes = PrefixCache(_PREFIX_BYTES)
        self._cache = self._new_cache()
        self._graphs = DecodeGraphs(self._decoder, self._cache) if self._decoder.device.type == "cuda" else None
        self._waiting: deque[Generation] = deque()
        self._rows: list[Generation] = []
        self._ended: list[Generation] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._rows)

    @property
    def is_captured(self) -> bool:
        """Whether it has graphs of its own, which a new batch would have to capture anew."""
        return self._graphs is not None

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

    def fits(self, decoder: Decoder) -> bool:
        """Whether `load` can take these weights."""
        return self._decoder.fits(decoder)

    def load(self, decoder: Decoder) -> None:
        """Go on with the weights of a decoder of the same shape, in the same memory and with the same graphs.

        Only where nobody waits for a reply: none may be of two minds.
        """
        self._decoder.load(decoder)
        self._prefixes = PrefixCache(_PREFIX_BYTES)

    def rest(self) -> None:
        """Give back the memory of a batch that has nothing to do; known prompts stay known.

        On CUDA there is enough of it, and it is what graphs were captured with.
        """
        if self._graphs is None:
            self._cache = self._new_cache()

    def _new_cache(self) -> KVCache:
        return KVCache(self._decoder.config, self._decoder.device, self._decoder.dtype)

    def _decode(self) -> None:
        # The last token sampled is not in the cache yet: it goes behind prompt and reply so far.
        last = [row.token_ids[-1] for row in self._rows]
        places = [len(row.prompt_ids) + len(row.token_ids) - 1 for row in self._rows]
        if self._graphs is not None:
            self._replay(self._graphs, last, places)
            return
        count, length = len(last), _rounded_up(max(places) + 1)
        self._cache.reserve(count, length)
        idle = [0] * max(self._decoder.least_rows - count, 0)
        token_ids, positions = torch.from_numpy(np.array((last + idle, places + idle)))
        attention = self._cache.attention(0, positions[:count, None], length)
        self._append(self._rows, self._decoder(token_ids, positions, attention)[:count])

    def _replay(self, graphs: DecodeGraphs, last: list[int], places: list[int]) -> None:
        count = len(last)
        idle = [0] * (bucket(count, self._decoder.least_rows) - count)
        length = fine_bucket(max(places) + 1, _GRAPH_LENGTH)
        self._cache.reserve(count + len(idle), length)
        # What is captured draws from all tokens.
        is_drawn = not any(has_limit(row.settings) for row in self._rows)
        draws = [row.random.random() for row in self._rows] if is_drawn else [0.0] * count
        temperatures = [float(row.settings.temperature) for row in self._rows]
        # A float64 holds every id and place.
        inputs = np.array([last + idle, places + idle, [*draws, *idle], temperatures + [1.0] * len(idle)])
        decoded = graphs(torch.from_numpy(inputs), length)
        if not is_drawn:
            self._append(self._rows, decoded.logits[:count])
            return
        ids, logprobs = decoded.drawn[:, :count].tolist()
        for row, token_id, logprob in zip(self._rows, ids, logprobs, strict=True):
            row.append(int(token_id), logprob)

    def _take_prompts(self) -> list[_Prompt]:
        prompts: dict[tuple[int, ...], _Prompt] = {}
        longest = count = 0
        while self._waiting and len(self._rows) + count < _MAX_ROWS:
            ids = tuple(self._waiting[0].prompt_ids)
            if ids not in prompts:
                prompt = _Prompt(ids=ids, found=self._prefixes.find(ids))
                longest = max(longest, _rounded_up(len(ids) - prompt.start))
                if prompts and longest * (len(prompts) + 1) > _PREFILL_TOKENS[self._decoder.device.type]:
                    break
                prompts[ids] = prompt
            prompts[ids].rows.append(self._waiting.popleft())
            count += 1
        return list(prompts.values())

    def _prefill(self, prompts: list[_Prompt]) -> None:
        device, first = self._decoder.device, len(self._rows)
        # A multiple of a block in all, or of each.
        length = _rounded_up(max(len(prompt.ids) for prompt in prompts))
        multiple = BLOCK if length > ANY_LENGTH else BLOCK // math.gcd(BLOCK, len(prompts))
        tokens = max(2, _rounded_up(max(len(prompt.ids) - prompt.start for prompt in prompts), multiple))
        # Each prompt is computed once, in the row of the first that has it; the others copy it.
        twins = [(place, row) for place, prompt in enumerate(prompts) for row in prompt.rows[1:]]
        joining = [prompt.rows[0] for prompt in prompts] + [row for _, row in twins]
        self._rows.extend(joining)
        # Padding has places, too.
        self._cache.reserve(len(self._rows), max(length, tokens + max(prompt.start for prompt in prompts)))
        for place, prompt in enumerate(prompts, start=first):
            if prompt.found:
                self._cache.write(place, torch.cat(prompt.found, dim=1))
        new = [prompt.ids[prompt.start :] for prompt in prompts]
        padded = torch.tensor([[*ids, *[0] * (tokens - len(ids))] for ids in new], device=device)
        starts = torch.tensor([prompt.start for prompt in prompts], device=device)
        positions = starts[:, None] + torch.arange(tokens, device=device)
        idle = [0] * (self._decoder.least_rows - len(prompts))
        ends = [place * tokens + len(ids) - 1 for place, ids in enumerate(new)]
        with for_any_shape(device):
            logits = self._decoder(
                padded.flatten(),
                positions.flatten(),
                self._cache.attention(first, positions, length),
                torch.tensor(ends + idle, device=device),
            )
        for place, prompt in enumerate(prompts, start=first):
            self._prefixes.store(prompt.ids, partial(self._cache.read, place))
        self._cache.copy([first + place for place, _ in twins], range(first + len(prompts), len(self._rows)), length)
        self._append(joining, logits[[*range(len(prompts)), *(place for place, _ in twins)]])

    def _append(self, rows: list[Generation], logits: Tensor) -> None:
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
                self._cache.copy([len(self._rows)], [index], len(last.prompt_ids) + len(last.token_ids))


def _rounded_up(length: int, multiple: int = BLOCK) -> int:
    return -(-length // multiple) * multiple
