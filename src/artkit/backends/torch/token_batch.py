"""Sequences as tensors, and the log probabilities that a decoder gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

if TYPE_CHECKING:
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.sequences import TokenSequence

__all__ = ["TokenBatch", "micro_batches"]


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

    def score(self, decoder: Decoder, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """The log probability of each trained token and the entropy where it was drawn, `[n]` each, in float32.

        The output head, most of a small model's work, runs only where the next token is trained on.

        Args:
            decoder: The weights.
            dtype: What those that are trained, kept in float32, are cast to on the way; gradients arrive in float32.
        """
        logits_at, arguments = _LogitsAt(decoder), (self.token_ids, self.rows, self.places - 1)
        cast = {name: value.to(dtype) for name, value in logits_at.named_parameters() if value.requires_grad}
        # Without a cast the module is called as it is: swapping parameters costs a small model as much as computing.
        logits = logits_at(*arguments) if dtype == torch.float32 else functional_call(logits_at, cast, arguments)
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        entropies = -(logprobs.detach().exp() * logprobs.detach()).sum(dim=-1)
        return logprobs.gather(1, self.targets[:, None])[:, 0], entropies


class _LogitsAt(nn.Module):
    """The whole way from ids to scores in one call, as `functional_call` wants it."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, token_ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        positions = torch.arange(token_ids.shape[1], device=token_ids.device)[None]
        return self.decoder.logits(self.decoder(token_ids, positions)[rows, places])


def micro_batches(sequences: Sequence[TokenSequence], device: torch.device, max_tokens: int) -> Iterator[TokenBatch]:
    """All sequences, those of similar length together, so that little is padded.

    Args:
        sequences: In any order.
        device: Where the tensors are wanted.
        max_tokens: Padded tokens of one batch; a sequence that is longer has a batch of its own.
    """
    members: list[int] = []
    for member in sorted(range(len(sequences)), key=lambda index: len(sequences[index].token_ids)):
        # In ascending order the next one is the longest: it sets the width of the whole batch.
        if members and len(sequences[member].token_ids) * (len(members) + 1) > max_tokens:
            yield TokenBatch.of(sequences, members, device)
            members = []
        members.append(member)
    if members:
        yield TokenBatch.of(sequences, members, device)
