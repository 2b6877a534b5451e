"""What is trained on: the very ids that were sampled, put together into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openai.types.chat.chat_completion import Choice

from artkit.backends.torch.held_turns import held_turns
from artkit.errors import BackendError

if TYPE_CHECKING:
    import art

__all__ = ["TokenSequence", "Turn", "merge_turns", "sampled_sequences"]

_TOKEN_PREFIX = "token_id:"  # noqa: S105 (no secret: how a choice names a token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the model.

    Attributes:
        prompt_ids: All ids before the reply; not empty.
        completion_ids: The reply, its end marker included.
        logprobs: Of each id of the reply, when it was sampled; zeros for demonstrations.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    logprobs: Sequence[float]


@dataclass(slots=True)
class TokenSequence:
    """Ids in order, some of them trained on.

    Attributes:
        token_ids: The whole sequence.
        targets: The places in it of the ids that are trained on; never 0.
        logprobs: Of each of those, when it was sampled.
    """

    token_ids: list[int]
    targets: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def extend(self, turn: Turn) -> None:
        """Add a turn whose prompt begins with this sequence."""
        self.token_ids.extend(turn.prompt_ids[len(self.token_ids) :])
        self.targets.extend(range(len(self.token_ids), len(self.token_ids) + len(turn.completion_ids)))
        self.token_ids.extend(turn.completion_ids)
        self.logprobs.extend(turn.logprobs)


def merge_turns(turns: Iterable[Turn]) -> list[TokenSequence]:
    """Join each turn to the one before where its prompt continues it, else begin a new sequence.

    A prompt that was rendered anew may differ from what was sampled (a reply that was cut, a template that drops
    earlier thoughts); such a turn is trained on behind the prompt that it really had.

    >>> first = Turn(prompt_ids=[1, 2], completion_ids=[3], logprobs=[-0.1])
    >>> second = Turn(prompt_ids=[1, 2, 3, 4], completion_ids=[5], logprobs=[-0.2])
    >>> merge_turns([first, second])
    [TokenSequence(token_ids=[1, 2, 3, 4, 5], targets=[2, 4], logprobs=[-0.1, -0.2])]
    """
    sequences: list[TokenSequence] = []
    for turn in turns:
        before = sequences[-1].token_ids if sequences else []
        if not sequences or list(turn.prompt_ids[: len(before)]) != before:
            sequences.append(TokenSequence([]))
        sequences[-1].extend(turn)
    return sequences


def sampled_sequences(trajectory: art.Trajectory, *, vocab_size: int) -> list[TokenSequence]:
    """The sequences of a trajectory: of its own conversation and of its additional ones, or of those ART captured.

    Choices without log probabilities are not trained on. A choice that several conversations share, because they
    branch behind it, is trained on once.

    Raises:
        BackendError: A choice has log probabilities but not the ids that belong to them, or ids of another tokenizer;
            or ART captured something that is no chat.
    """
    sequences: list[TokenSequence] = []
    for held in held_turns(trajectory):
        turns = (_turn(item, vocab_size) for item, is_new in held.turns if is_new and isinstance(item, Choice))
        sequences += merge_turns(turn for turn in turns if turn is not None)
    return sequences


def _turn(choice: Choice, vocab_size: int) -> Turn | None:
    if choice.logprobs is None:
        return None
    tokens = choice.logprobs.content or choice.logprobs.refusal or []
    if not tokens:
        return None
    extra = choice.model_extra or {}
    prompt_ids = extra.get("prompt_token_ids")
    if not prompt_ids:
        raise BackendError(
            "a choice with logprobs has no prompt_token_ids, so what it was sampled from is unknown",
            "sample through the model's own client or sampling session, and keep the Choice object as it came",
        )
    completion_ids = [int(token.token.removeprefix(_TOKEN_PREFIX)) for token in tokens]
    if extra.get("token_ids", completion_ids) != completion_ids:
        raise BackendError(
            f"a choice has {len(extra['token_ids'])} token_ids that differ from the {len(tokens)} in its logprobs",
            "keep the Choice object as it came",
        )
    if not all(0 <= token_id < vocab_size for token_id in (*prompt_ids, *completion_ids)):
        raise BackendError(
            f"a choice holds token ids outside 0 … {vocab_size - 1}", "train on replies of this model's own server only"
        )
    return Turn(prompt_ids=prompt_ids, completion_ids=completion_ids, logprobs=[token.logprob for token in tokens])
