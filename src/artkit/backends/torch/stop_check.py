"""Whether a reply has come to a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.backends.torch.chat_tokenizer import ChatTokenizer

__all__ = ["StopCheck"]

# The first characters of a tail may read otherwise than in the whole: half a character, a space that is left out.
_MARGIN = 8


class StopCheck:
    """Looks for stop strings in one reply while it grows, and decodes only its end: not the whole for each token.

    Args:
        tokenizer: What decodes.
        stop: At least one string; none is empty.
    """

    def __init__(self, tokenizer: ChatTokenizer, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._reach = max(map(len, self._stop)) + _MARGIN
        self._start = 0

    def __call__(self, token_ids: Sequence[int]) -> bool:
        """Whether the reply holds a stop string; called for each token, with all tokens so far."""
        text = self._tokenizer.decode(token_ids[self._start :])
        if any(stop in text for stop in self._stop):
            return True
        if len(text) > 2 * self._reach:
            # Counted in characters, not tokens: many tokens may have no text.
            later = (self._start + len(token_ids)) // 2
            if len(self._tokenizer.decode(token_ids[later:])) >= self._reach:
                self._start = later
        return False
