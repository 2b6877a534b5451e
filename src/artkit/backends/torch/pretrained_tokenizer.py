"""The tokenizer of a Hugging Face directory."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from artkit.backends.torch.tool_calls import CALL_MARKERS
from artkit.backends.torch.tool_support import ToolSupport
from artkit.errors import ConfigurationError

__all__ = ["PretrainedTokenizer"]

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)
# Whose ids are kept.
_TEXTS = 64


class PretrainedTokenizer:
    """A Hugging Face tokenizer with its chat template.

    Args:
        directory: Where the tokenizer's files are.

    Raises:
        ConfigurationError: There is no tokenizer, it has no chat template, or nothing says which id ends a turn.
    """

    def __init__(self, directory: Path) -> None:
        # Here, not at the top: the micro model needs no transformers, and importing it takes seconds.
        from transformers import AutoTokenizer

        self._directory = directory
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(directory)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{str(directory)!r} has no tokenizer that can be read: {error}",
                "save it there with tokenizer.save_pretrained",
            ) from error
        if not self._tokenizer.chat_template:
            raise ConfigurationError(
                f"the tokenizer in {str(directory)!r} has no chat template",
                "use an instruction-tuned model, or set tokenizer.chat_template and save it again",
            )
        self._end_ids = self._read_end_ids()
        if not self._end_ids:
            raise ConfigurationError(
                f"neither the tokenizer nor generation_config.json in {str(directory)!r} names an end token",
                "set tokenizer.eos_token to the token that ends an assistant's turn and save it again",
            )
        # The tokenizer's Rust half refuses to be borrowed by two threads at once.
        self._lock = threading.Lock()
        # The members of a group ask with one text.
        self._ids_of = lru_cache(maxsize=_TEXTS)(self._tokenize)
        self._tool_support = ToolSupport.probe(self._render)
        self._hidden_ids = self._find_hidden_ids()

    def _read_end_ids(self) -> frozenset[int]:
        ids = {self._tokenizer.eos_token_id} - {None}
        path = self._directory / "generation_config.json"
        if path.exists():
            listed = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            ids |= set(listed if isinstance(listed, list) else [listed]) - {None}
        return frozenset(ids)

    @property
    def size(self) -> int:
        """How many ids it knows."""
        return len(self._tokenizer)

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end an assistant's turn."""
        return self._end_ids

    @property
    def tool_support(self) -> ToolSupport:
        """What its chat template does with tools."""
        return self._tool_support

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The ids of a conversation; see `ChatTokenizer`."""
        self._tool_support.check(messages, tools)
        text = self._render(
            messages, tools, add_generation_prompt=add_generation_prompt, template_arguments=template_arguments
        )
        return [*self._ids_of(text)]

    def _tokenize(self, text: str) -> tuple[int, ...]:
        with self._lock:
            # The template wrote the special tokens already.
            return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool = True,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> str:
        from jinja2 import TemplateError

        with self._lock:
            try:
                text: str = self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) if tools else None,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    **(template_arguments or {}),
                )
            except (TemplateError, TypeError) as error:
                raise ValueError(f"the chat template refused these messages: {error}") from error
        return text

    def _find_hidden_ids(self) -> frozenset[int] | None:
        """The special tokens without text, where the markers of tool calls are special too; None where not."""
        special = {index for index, token in self._tokenizer.added_tokens_decoder.items() if token.special}
        special |= set(self._tokenizer.all_special_ids)
        shown = {index for index in special if self._tokenizer.convert_ids_to_tokens(index) in CALL_MARKERS}
        return frozenset(special - shown) if shown and self._tool_support.problem is None else None

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, without special tokens but for the markers of tool calls."""
        hidden = self._hidden_ids
        shown = list(token_ids) if hidden is None else [index for index in token_ids if index not in hidden]
        with self._lock:
            text: str = self._tokenizer.decode(
                shown, skip_special_tokens=hidden is None, clean_up_tokenization_spaces=False
            )
        return text

    def save(self, directory: Path) -> None:
        """Copy the tokenizer's files."""
        for name in _FILES:
            if (self._directory / name).exists():
                shutil.copyfile(self._directory / name, directory / name)
