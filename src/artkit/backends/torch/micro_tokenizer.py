"""The tokenizer of the micro model: one token per character, one per role marker, one for the end of a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artkit.backends.torch.tool_support import NO_TOOLS, ToolSupport

__all__ = ["MicroTokenizer"]

_UNKNOWN, _END = "<|unknown|>", "<|end|>"
_ROLES = ("system", "user", "assistant", "tool")
_SPECIAL = (_UNKNOWN, _END, *(f"<|{role}|>" for role in _ROLES))
_CHARACTERS = ("\n", *map(chr, range(0x20, 0x7F)))
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


class MicroTokenizer:
    """One id per character of printable ASCII and newline, four role markers, an end marker and an unknown.

    A turn is its role's marker, its characters and the end marker, so a conversation that goes on extends the ids of
    the conversation so far, and text can never forge a marker.

    >>> tokenizer = MicroTokenizer()
    >>> ids = tokenizer.encode_chat([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    >>> ids, tokenizer.decode(ids)
    ([3, 79, 80, 1, 4], 'hi')
    """

    def __init__(self) -> None:
        self._pieces = (*_SPECIAL, *_CHARACTERS)
        self._id_of = {piece: index for index, piece in enumerate(self._pieces)}
        self._character_ids = {character: self._id_of[character] for character in _CHARACTERS}
        # Special tokens are left out of text, but for the unknown one, which stood for a character.
        self._texts = (_REPLACEMENT, *("" for _ in _SPECIAL[1:]), *_CHARACTERS)

    @property
    def size(self) -> int:
        """How many ids it knows."""
        return len(self._pieces)

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end an assistant's turn."""
        return frozenset({self._id_of[_END]})

    @property
    def tool_support(self) -> ToolSupport:
        """None: a tool's schema, one token per character, would fill the window."""
        return NO_TOOLS

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The ids of a conversation; see `ChatTokenizer`."""
        del template_arguments  # The template has no variables.
        NO_TOOLS.check(messages, tools)
        ids: list[int] = []
        known, end = self._character_ids, self._id_of[_END]
        for message in messages:
            role = message["role"]
            if role not in _ROLES:
                raise ValueError(f"role {role!r} is none of {', '.join(_ROLES)}")
            ids.append(self._id_of[f"<|{role}|>"])
            ids.extend(known.get(character, 0) for character in message["content"])
            ids.append(end)
        if add_generation_prompt:
            ids.append(self._id_of["<|assistant|>"])
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, without markers."""
        return "".join(self._texts[token_id] for token_id in token_ids)

    def save(self, directory: Path) -> None:
        """Write it so that transformers' `AutoTokenizer` reads it back."""
        specials = [
            {
                "id": index,
                "content": piece,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, piece in enumerate(_SPECIAL)
        ]
        tokenizer = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": specials,
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": "[\\s\\S]"},
                "behavior": "Isolated",
                "invert": False,
            },
            "post_processor": None,
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": self._id_of, "unk_token": _UNKNOWN},
        }
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": _UNKNOWN,
            "eos_token": _END,
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT_TEMPLATE,
        }
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
