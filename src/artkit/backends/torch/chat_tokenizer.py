"""What the backend asks of a tokenizer: conversations in, ids out, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ChatTokenizer"]


class ChatTokenizer(Protocol):
    """A tokenizer with a chat template.

    Called by the server for every request and by training for demonstrations, from several threads at once.
    """

    @property
    def size(self) -> int:
        """How many ids it knows: ids are `0 … size - 1`."""
        ...

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end an assistant's turn."""
        ...

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The ids of a conversation.

        Args:
            messages: In OpenAI's shape, with plain text as content.
            add_generation_prompt: Whether the start of an assistant's turn follows.
            template_arguments: Further variables of the chat template.

        Raises:
            ValueError: The template cannot render these messages.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, without special tokens."""
        ...

    def save(self, directory: Path) -> None:
        """Write the tokenizer in Hugging Face's format."""
        ...
