"""Sequences as tensors, and the log probabilities that a decoder gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from artkit.backends.torch.attention_kernels import for_any_shape
from artkit.backends.torch.buckets import fine_bucket
from artkit.backends.torch.frozen_head import score_tokens
from artkit.backends.torch.packed_attention import PackedAttention

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.sequences import TokenSequence

__all__ = ["TokenBatch", "micro_batches"]

# Of the rows of a grid.
_LEAST_LENGTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Sequences that have one prompt, which is computed once; or a single one, all of it prompt.

    Attributes:
        stem: The ids of the prompt; of a single sequence, all that are computed.
        branches: For each sequence the ids behind the prompt that are computed; empty for a single one.
    """

    members: list[int]
    stem: Sequence[int]
    branches: list[Sequence[int]]

    @property
    def tokens(self) -> int:
        return len(self.stem) + sum(map(len, self.branches))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Sequences as rows of one length, of both of which there are few: the shape is one that was computed before."""

    members: list[int]
    rows: int
    length: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """A few sequences, packed: one token behind the other, and prompts that several have only once.

    Or, where that is faster, a grid, each sequence a row of its own. What comes behind a sequence's last target is left
    out, as is that target itself: nothing follows from them.

    Attributes:
        members: Which sequences these are.
        token_ids: `[tokens]`.
        positions: `[tokens]`: the place of each in its sequence.
        attention: Who sees whom.
        rows: `[n]`: of each trained token, which of the members it belongs to.
        sources: `[n]`: the token that it follows, counted in `token_ids`.
        targets: `[n]`: its id.
        grid: How many rows of what length `token_ids` is; None where it is packed.
    """

    members: list[int]
    token_ids: Tensor
    positions: Tensor
    attention: PackedAttention
    rows: Tensor
    sources: Tensor
    targets: Tensor
    grid: tuple[int, int] | None = None

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence], families: Sequence[_Family], device: torch.device) -> TokenBatch:
        """Lay out the members of `families`."""
        token_ids = [token_id for family in families for token_id in family.stem]
        positions = [place for family in families for place in range(len(family.stem))]
        branches: list[tuple[int, int]] = []
        rows: list[int] = []
        sources: list[int] = []
        targets: list[int] = []
        members = [member for family in families for member in family.members]
        row = start = 0
        for number, family in enumerate(families):
            stem = len(family.stem)
            for branch, member in zip(family.branches or [()], family.members, strict=True):
                sequence = sequences[member]
                # How far behind its place in the sequence a token of the branch is in the batch.
                shift = len(token_ids) - stem
                sources += [place - 1 + (start if place <= stem else shift) for place in sequence.targets]
                targets += [sequence.token_ids[place] for place in sequence.targets]
                rows += [row] * len(sequence.targets)
                if branch:
                    branches.append((number, len(branch)))
                    positions += range(stem, stem + len(branch))
                    token_ids += branch
                row += 1
            start += stem
        layout = torch.tensor([token_ids, positions], device=device)
        trained = torch.tensor([rows, sources, targets], device=device)
        return cls(
            members=members,
            token_ids=layout[0],
            positions=layout[1],
            attention=PackedAttention([len(family.stem) for family in families], branches, device),
            rows=trained[0],
            sources=trained[1],
            targets=trained[2],
        )

    @classmethod
    def of_grid(cls, sequences: Sequence[TokenSequence], grid: _Grid, device: torch.device) -> TokenBatch:
        """Lay out the members of `grid`; rows and ends of rows that none of them has are padding that nobody reads."""
        token_ids = np.zeros((grid.rows, grid.length), dtype=np.int64)
        trained: list[tuple[int, int, int]] = []
        for row, member in enumerate(grid.members):
            sequence = sequences[member]
            last = sequence.targets[-1]
            token_ids[row, :last] = sequence.token_ids[:last]
            before = row * grid.length - 1
            trained += [(row, before + place, sequence.token_ids[place]) for place in sequence.targets]
        rows, sources, targets = torch.tensor(trained, device=device).t().contiguous()
        return cls(
            members=grid.members,
            token_ids=torch.from_numpy(token_ids).flatten().to(device),
            positions=torch.arange(grid.length, device=device).repeat(grid.rows),
            attention=PackedAttention([grid.length] * grid.rows, [], device),
            rows=rows,
            sources=sources,
            targets=targets,
            grid=(grid.rows, grid.length),
        )

    def per_token(self, values: Sequence[float]) -> Tensor:
        """`[n]`: the value of each trained token's sequence, from one value per sequence of the whole step."""
        return torch.tensor([values[member] for member in self.members], device=self.rows.device)[self.rows]

    def score(self, decoder: Decoder, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """The log probability of each trained token and the entropy where it was drawn, `[n]` each, in float32.

        The output head, most of a small model's work, runs only where the next token is trained on.

        Args:
            decoder: The weights.
            dtype: What those that are trained, kept in float32, are cast to on the way; gradients arrive in float32.
                Adapters see to it themselves.
        """
        scores_of = _ScoresOf(decoder)
        cast = {
            name: value.to(dtype)
            for name, value in scores_of.named_parameters()
            if decoder.adapters is None and value.requires_grad and value.dtype != dtype
        }
        with for_any_shape(self.token_ids.device):
            # As it is, where it can be: swapping parameters costs a small model as much as computing.
            scored: tuple[Tensor, Tensor] = functional_call(scores_of, cast, (self,)) if cast else scores_of(self)
        return scored


class _ScoresOf(nn.Module):
    """The whole way from ids to scores in one call, as `functional_call` wants it."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        decoder = self.decoder
        hidden = decoder(batch.token_ids[None], batch.positions[None], batch.attention, batch.sources)
        if not decoder.head.requires_grad:
            return score_tokens(hidden, decoder.head, batch.targets)
        logprobs = torch.log_softmax(decoder.logits(hidden).float(), dim=-1)
        entropies = -(logprobs.detach().exp() * logprobs.detach()).sum(dim=-1)
        return logprobs.gather(1, batch.targets[:, None])[:, 0], entropies


def micro_batches(
    sequences: Sequence[TokenSequence], device: torch.device, max_tokens: int, *, idle_tokens: float = 0.0
) -> Iterator[TokenBatch]:
    """All sequences, those of one prompt and of similar length together, so that little is computed twice or padded.

    Or as grids, if all of them are computed in the time in which the others would only be launched: where grids come
    back in the same shape, they are launched in no time.

    Args:
        sequences: In any order; each has a target.
        device: Where the tensors are wanted.
        max_tokens: Of one batch; a sequence that is longer has a batch of its own.
        idle_tokens: How many tokens the device computes while one batch is launched.
    """
    packs, grids = list(_packs(sequences, max_tokens)), list(_grids(sequences, max_tokens))
    if sum(grid.tokens for grid in grids) <= idle_tokens * len(packs):
        for grid in grids:
            yield TokenBatch.of_grid(sequences, grid, device)
    else:
        for families in packs:
            yield TokenBatch.of(sequences, families, device)


def _grids(sequences: Sequence[TokenSequence], max_tokens: int) -> Iterator[_Grid]:
    lengths = [sequence.targets[-1] for sequence in sequences]
    members: list[int] = []
    rows, length = 0, 0
    for member in sorted(range(len(lengths)), key=lambda member: -lengths[member]):
        if members and fine_bucket(len(members) + 1, 1) * length > max_tokens:
            yield _Grid(members=members, rows=rows, length=length)
            members = []
        if not members:
            length = min(fine_bucket(lengths[member], _LEAST_LENGTH), max(lengths[member], max_tokens))
        members.append(member)
        rows = fine_bucket(len(members), 1)
    if members:
        yield _Grid(members=members, rows=rows, length=length)


def _packs(sequences: Sequence[TokenSequence], max_tokens: int) -> Iterator[list[_Family]]:
    families: list[_Family] = []
    tokens = 0
    for family in sorted(_families(sequences, max_tokens), key=lambda family: len(family.stem)):
        if families and tokens + family.tokens > max_tokens:
            yield families
            families, tokens = [], 0
        families.append(family)
        tokens += family.tokens
    if families:
        yield families


def _families(sequences: Sequence[TokenSequence], max_tokens: int) -> Iterator[_Family]:
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for member, sequence in enumerate(sequences):
        by_prompt.setdefault(tuple(sequence.token_ids[: sequence.targets[0]]), []).append(member)
    for prompt, members in by_prompt.items():
        family = _Family(members=[], stem=prompt, branches=[])
        for member in members:
            sequence = sequences[member]
            branch = sequence.token_ids[len(prompt) : sequence.targets[-1]]
            if family.members and family.tokens + len(branch) > max_tokens:
                yield _alone_or_not(family)
                family = _Family(members=[], stem=prompt, branches=[])
            family.members.append(member)
            family.branches.append(branch)
        yield _alone_or_not(family)


def _alone_or_not(family: _Family) -> _Family:
    if len(family.members) > 1:
        return family
    return _Family(members=family.members, stem=[*family.stem, *family.branches[0]], branches=[])
