"""Reading the training data: as many scenarios as are asked for, never across an epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artkit.scenarios import Cursor, Scenario, ScenarioBatch

__all__ = ["Drawn", "Reader"]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Scenarios that were read.

    Attributes:
        items: The scenarios, in order; never empty.
        epoch: Their epoch, from 0.
        is_epoch_end: Whether the last of them is the last of the epoch.
    """

    items: tuple[Scenario, ...]
    epoch: int
    is_epoch_end: bool


class Reader:
    """Reads scenarios on demand.

    Args:
        source: Batches of one scenario each, from `cursor` on.
        cursor: Where reading begins.

    Attributes:
        cursor: Where the next scenario stands.
    """

    def __init__(self, source: AsyncIterator[ScenarioBatch[Any]], cursor: Cursor) -> None:
        self.cursor = cursor
        self._source = source

    async def take(self, count: int) -> Drawn | None:
        """Return the next `count` scenarios, fewer where the epoch or the source ends, or None after the last."""
        items: list[Scenario] = []
        epoch, is_epoch_end = 0, False
        while len(items) < count and not is_epoch_end and (one := await anext(self._source, None)) is not None:
            items += one.items
            epoch, is_epoch_end = one.epoch, one.is_epoch_end
            self.cursor = one.cursor
        return Drawn(items=tuple(items), epoch=epoch, is_epoch_end=is_epoch_end) if items else None
