"""Sequences as tensors, and the log probabilities that a decoder gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.sequences import TokenSequence

__all__ = ["TokenBatch", "micro_batches"]

# Padded tokens of one forward and backward pass. On a CPU the activations of a small model should stay in its cache
# (8192 tokens took a quarter longer than 2048); a GPU wants long passes.
_MAX_TOKENS = {"cpu": 2048, "cuda": 16_384}


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """A few sequences of similar length, padded at their end.

    Attributes:
        members: Which sequences these are, in rows' order.
        token_ids: `[rows, tokens]`.
        rows: `[n]`: the row of each trained token.
        places: `[n]`: its place in the row.
        targets: `[n]`: its id.
    """

    members: list[int]
    token_ids: Tensor
    rows: Tensor
    places: Tensor
    targets: Tensor

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence], members: list[int], device: torch.device) -> TokenBatch:
        """Lay out `sequences[member]` for each of `members`."""
        chosen = [sequences[member] for member in members]
        longest = max(len(sequence.token_ids) for sequence in chosen)
        padded = [[*sequence.token_ids, *[0] * (longest - len(sequence.token_ids))] for sequence in chosen]
        token_ids = torch.tensor(padded, device=device)
        rows = torch.tensor([row for row, sequence in enumerate(chosen) for _ in sequence.targets], device=device)
        places = torch.tensor([place for sequence in chosen for place in sequence.targets], device=device)
        return cls(members=members, token_ids=token_ids, rows=rows, places=places, targets=token_ids[rows, places])

    def per_token(self, values: Sequence[float]) -> Tensor:
        """`[n]`: the value of each trained token's sequence, from one value per sequence of the whole step."""
        return torch.tensor([values[member] for member in self.members], device=self.rows.device)[self.rows]

    def score(self, decoder: Decoder) -> tuple[Tensor, Tensor]:
        """The log probability of each trained token and the entropy where it was drawn, `[n]` each.

        The output head, most of a small model's work, runs only where the next token is trained on.
        """
        positions = torch.arange(self.token_ids.shape[1], device=self.token_ids.device)[None]
        hidden = decoder(self.token_ids, positions)
        logprobs = torch.log_softmax(decoder.logits(hidden[self.rows, self.places - 1]).float(), dim=-1)
        entropies = -(logprobs.detach().exp() * logprobs.detach()).sum(dim=-1)
        return logprobs.gather(1, self.targets[:, None])[:, 0], entropies


def micro_batches(sequences: Sequence[TokenSequence], device: torch.device) -> Iterator[TokenBatch]:
    """All sequences, those of similar length together, so that little is padded."""
    budget = _MAX_TOKENS[device.type]
    members: list[int] = []
    for member in sorted(range(len(sequences)), key=lambda index: len(sequences[index].token_ids)):
        # In ascending order the next one is the longest: it sets the width of the whole batch.
        if members and len(sequences[member].token_ids) * (len(members) + 1) > budget:
            yield TokenBatch.of(sequences, members, device)
            members = []
        members.append(member)
    if members:
        yield TokenBatch.of(sequences, members, device)
