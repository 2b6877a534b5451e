"""What the backend asks of a tokenizer: conversations in, ids out, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from artkit.backends.torch.tool_support import ToolSupport

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

    @property
    def tool_support(self) -> ToolSupport:
        """What its chat template does with tools."""
        ...

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The ids of a conversation.

        Args:
            messages: As `template_message` makes them.
            add_generation_prompt: Whether the start of an assistant's turn follows.
            tools: Those on offer, as `template_tools` makes them; None or empty is none.
            template_arguments: Further variables of the chat template.

        Raises:
            ToolsRefusedError: The template would leave out tools, or the calls of earlier turns.
            ValueError: The template cannot render these messages.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, without special tokens but for the markers of tool calls."""
        ...

    def save(self, directory: Path) -> None:
        """Write the tokenizer in Hugging Face's format."""
        ...
