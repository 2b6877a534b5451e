"""Training on the very ids that were sampled."""

from __future__ import annotations

from typing import Any

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.chat_completion import Choice

from artkit.backends.torch.sequences import TokenSequence, Turn, merge_turns, sampled_sequences
from artkit.errors import BackendError

ids = st.lists(st.integers(0, 9), min_size=1, max_size=5)


def choice(prompt: list[int], reply: list[int], **changes: Any) -> Choice:
    content = [{"token": f"token_id:{i}", "logprob": -0.5, "bytes": [], "top_logprobs": []} for i in reply]
    fields = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "x"},
        "logprobs": {"content": content, "refusal": None},
        "prompt_token_ids": prompt,
        "token_ids": reply,
    }
    return Choice.model_validate({name: value for name, value in (fields | changes).items() if value is not ...})


def test_a_turn_that_continues_the_last_one_joins_its_sequence() -> None:
    """One pass over the conversation, not one per turn."""
    trajectory = art.Trajectory(
        messages_and_choices=[
            {"role": "user", "content": "?"},
            choice([1, 2], [3, 4]),
            {"role": "user", "content": "?"},
            choice([1, 2, 3, 4, 5], [6]),
        ]
    )

    assert sampled_sequences(trajectory, vocab_size=10) == [TokenSequence([1, 2, 3, 4, 5, 6], [2, 3, 5], [-0.5] * 3)]


def test_a_turn_that_does_not_continue_the_last_one_begins_a_sequence() -> None:
    """It is trained on behind the prompt that it really had, never on text encoded anew."""
    trajectory = art.Trajectory(messages_and_choices=[choice([1, 2], [3]), choice([1, 9], [4])])

    assert sampled_sequences(trajectory, vocab_size=10) == [
        TokenSequence([1, 2, 3], [2], [-0.5]),
        TokenSequence([1, 9, 4], [2], [-0.5]),
    ]


@given(turns=st.lists(st.tuples(ids, ids), min_size=1, max_size=5))
def test_every_sampled_id_is_trained_on_once_behind_its_own_prompt(turns: list[tuple[list[int], list[int]]]) -> None:
    """Merging must lose nothing, invent nothing and change no context."""
    made = [Turn(prompt_ids=prompt, completion_ids=reply, logprobs=[0.0] * len(reply)) for prompt, reply in turns]

    found = [
        (sequence.token_ids[:place], sequence.token_ids[place])
        for sequence in merge_turns(made)
        for place in sequence.targets
    ]

    assert found == [(prompt + reply[:i], reply[i]) for prompt, reply in turns for i in range(len(reply))]


def test_a_choice_without_logprobs_is_context_and_no_target() -> None:
    """Nobody knows how likely it was, so it has no importance ratio."""
    trajectory = art.Trajectory(messages_and_choices=[choice([1], [2], logprobs=None), choice([1, 2, 3], [4])])

    assert sampled_sequences(trajectory, vocab_size=10) == [TokenSequence([1, 2, 3, 4], [3], [-0.5])]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"prompt_token_ids": ...}, "prompt_token_ids"),
        ({"token_ids": [7, 7]}, "token_ids"),
        ({"prompt_token_ids": [1, 10]}, "outside 0 … 9"),
    ],
)
def test_a_choice_whose_ids_cannot_be_right_is_refused(changes: dict[str, Any], named: str) -> None:
    """Training on other ids than were sampled goes wrong silently."""
    with pytest.raises(BackendError, match=named):
        sampled_sequences(art.Trajectory(messages_and_choices=[choice([1], [2], **changes)]), vocab_size=10)


def test_a_choice_of_several_conversations_is_trained_on_once() -> None:
    """Where a conversation branches, what was said before would count once for each branch."""
    first = choice([1, 2], [3])
    trajectory = art.Trajectory(
        messages_and_choices=[first, choice([1, 2, 3, 4], [5])],
        additional_histories=[{"messages_and_choices": [first, choice([1, 2, 3, 6], [7])]}],
    )

    assert sampled_sequences(trajectory, vocab_size=10) == [
        TokenSequence([1, 2, 3, 4, 5], [2, 4], [-0.5] * 2),
        TokenSequence([1, 2, 3, 6, 7], [4], [-0.5]),
    ]
