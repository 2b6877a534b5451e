"""The keys and values of prompts that were computed before."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BLOCK", "PrefixCache"]

# Tokens that are kept and found together.
BLOCK = 16


class PrefixCache:
    """Blocks of prompts under one set of weights, each known by its tokens and all that come before them.

    What was sampled is not kept, only what came in a prompt: decoding rounds otherwise, and a prompt's tokens shall
    come out the same whether what is before them was found or not. The blocks that were least lately asked for go
    first, the end of a prompt before its beginning.

    Args:
        max_bytes: Of all blocks together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._numbers = itertools.count(1)
        # By the number of the block before (0: none) and the block's tokens: exact, where a hash may collide.
        self._blocks: OrderedDict[tuple[int, tuple[int, ...]], tuple[int, Tensor]] = OrderedDict()

    def find(self, prompt_ids: Sequence[int]) -> list[Tensor]:
        """The longest known beginning of a prompt, in blocks; its last token is left to compute."""
        keys, found, number = [], [], 0
        for start in range(0, len(prompt_ids) - BLOCK, BLOCK):
            key = (number, tuple(prompt_ids[start : start + BLOCK]))
            if key not in self._blocks:
                break
            number, block = self._blocks[key]
            keys.append(key)
            found.append(block)
        for key in reversed(keys):
            self._blocks.move_to_end(key)
        return found

    def store(self, prompt_ids: Sequence[int], read: Callable[[int, int], Tensor]) -> None:
        """Keep a prompt's whole blocks.

        Args:
            prompt_ids: The prompt.
            read: Copies the keys and values of the tokens from a start to an end.
        """
        keys, number = [], 0
        for start in range(0, len(prompt_ids) - BLOCK + 1, BLOCK):
            key = (number, tuple(prompt_ids[start : start + BLOCK]))
            if key not in self._blocks:
                block = read(start, start + BLOCK)
                self._blocks[key] = (next(self._numbers), block)
                self._num_bytes += block.nbytes
            number = self._blocks[key][0]
            keys.append(key)
        for key in reversed(keys):
            self._blocks.move_to_end(key)
        while self._num_bytes > self._max_bytes:
            _, (_, block) = self._blocks.popitem(last=False)
            self._num_bytes -= block.nbytes
