"""Verdicts that were given before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.rewards.ruler.verdict import Judgement

__all__ = ["VerdictCache"]


class VerdictCache:
    """Keeps verdicts by what was compared, the least recently used leaving first.

    Args:
        max_groups: How many verdicts are kept; 0 keeps none.
    """

    def __init__(self, max_groups: int) -> None:
        self._max_groups = max_groups
        self._kept: OrderedDict[str, Mapping[str, Judgement]] = OrderedDict()

    def get(self, key: str) -> Mapping[str, Judgement] | None:
        """Return the judgements by the digest of the transcript, or None."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def put(self, key: str, judgements: Mapping[str, Judgement]) -> None:
        """Keep the judgements, by the digest of the transcript."""
        self._kept[key] = judgements
        self._kept.move_to_end(key)
        while len(self._kept) > self._max_groups:
            self._kept.popitem(last=False)
