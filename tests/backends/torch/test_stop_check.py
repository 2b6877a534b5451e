"""Stop strings while a reply grows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.backends.torch.micro_tokenizer import MicroTokenizer
from artkit.backends.torch.stop_check import StopCheck


def ids_of(text: str) -> list[int]:
    """The ids of `text`, between its role marker and its end marker."""
    return MicroTokenizer().encode_chat([{"role": "user", "content": text}], add_generation_prompt=False)[1:-1]


# Two letters, so that near misses are frequent, and tokens without any text.
letters_and_markers = st.lists(st.sampled_from([*ids_of("ab"), 2, 3]), min_size=1, max_size=300)


@given(token_ids=letters_and_markers, stop=st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=3))
def test_a_reply_stops_where_its_whole_text_first_holds_a_stop_string(token_ids: list[int], stop: list[str]) -> None:
    """What the check leaves undecoded must not hide one."""
    tokenizer = MicroTokenizer()
    check = StopCheck(tokenizer, stop)

    for count in range(1, len(token_ids) + 1):
        expected = any(text in tokenizer.decode(token_ids[:count]) for text in stop)
        assert check(token_ids[:count]) == expected
        if expected:
            break


class CountingTokenizer(MicroTokenizer):
    """Notes how many ids it decodes at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text, as always."""
        self.counts.append(len(token_ids))
        return super().decode(token_ids)


@pytest.mark.parametrize("length", [100, 2000])
def test_a_long_reply_is_decoded_no_further_back_than_a_short_one(length: int) -> None:
    """Else the work for each token grows with the reply."""
    tokenizer = CountingTokenizer()
    check = StopCheck(tokenizer, ["stop"])
    token_ids = ids_of("a" * length)

    assert not any(check(token_ids[:count]) for count in range(1, length + 1))
    assert max(tokenizer.counts) < 30
