"""The tokenizer of the micro model."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from artkit.backends.torch.micro_tokenizer import MicroTokenizer

TOKENIZER = MicroTokenizer()
texts = st.text(string.ascii_letters + string.digits + string.punctuation + " \n")
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts}),
    min_size=1,
    max_size=4,
)


@given(text=texts)
def test_printable_text_survives(text: str) -> None:
    """One token per character, so nothing is lost or joined."""
    ids = TOKENIZER.encode_chat([{"role": "user", "content": text}], add_generation_prompt=False)

    assert (TOKENIZER.decode(ids), len(ids)) == (text, len(text) + 2)


@given(conversation=conversations, text=texts)
def test_a_conversation_that_goes_on_extends_its_ids(conversation: list[dict[str, str]], text: str) -> None:
    """So the turns of an episode are one sequence in training."""
    prompt = TOKENIZER.encode_chat(conversation, add_generation_prompt=True)
    reply = TOKENIZER.encode_chat([{"role": "assistant", "content": text}], add_generation_prompt=False)[1:]

    longer = [*conversation, {"role": "assistant", "content": text}, {"role": "user", "content": "next"}]

    assert TOKENIZER.encode_chat(longer, add_generation_prompt=True)[: len(prompt + reply)] == prompt + reply


def test_text_cannot_forge_a_marker() -> None:
    """A user who writes the end marker has not ended the turn."""
    ids = TOKENIZER.encode_chat([{"role": "user", "content": "<|end|>"}], add_generation_prompt=False)

    assert [i for i in ids if i in TOKENIZER.end_ids] == ids[-1:]


def test_a_character_it_does_not_know_stays_one_token() -> None:
    """Foreign text is worse, not fatal."""
    ids = TOKENIZER.encode_chat([{"role": "user", "content": "é"}], add_generation_prompt=False)

    assert TOKENIZER.decode(ids) == "\N{REPLACEMENT CHARACTER}"


def test_an_unknown_role_is_refused() -> None:
    """It has no marker."""
    with pytest.raises(ValueError, match="narrator"):
        TOKENIZER.encode_chat([{"role": "narrator", "content": ""}], add_generation_prompt=False)


def test_a_saved_tokenizer_is_the_same_in_transformers(tmp_path: Path) -> None:
    """A checkpoint of the micro model is an ordinary Hugging Face directory."""
    TOKENIZER.save(tmp_path)
    messages = [{"role": "system", "content": "Say 1\n"}, {"role": "user", "content": "  a B~"}]

    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    assert ids == TOKENIZER.encode_chat(messages, add_generation_prompt=True)
    assert loaded.decode(ids, skip_special_tokens=True) == TOKENIZER.decode(ids)
    assert len(loaded) == TOKENIZER.size
