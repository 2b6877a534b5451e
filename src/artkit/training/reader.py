"""Reading the training data: as many scenarios as are asked for, never across an epoch."""

from __future__ import annotations

import asyncio
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
        name: What the user knows the source by.

    Attributes:
        cursor: Where the next scenario stands.
        is_reading: Whether the source is being waited for.
        is_closed: Whether nothing is to be read any more.
    """

    def __init__(self, source: AsyncIterator[ScenarioBatch[Any]], cursor: Cursor, name: str) -> None:
        self.cursor, self.name = cursor, name
        self.is_reading = self.is_closed = False
        self._source = source

    async def take(self, count: int) -> Drawn | None:
        """Return the next `count` scenarios, fewer where the epoch or the source ends, or None after the last.

        Raises:
            CancelledError: It is closed, and the source has kept to itself that whoever waited was cancelled.
        """
        items: list[Scenario] = []
        epoch, is_epoch_end = 0, False
        while len(items) < count and not is_epoch_end and (one := await self._one()) is not None:
            items += one.items
            epoch, is_epoch_end = one.epoch, one.is_epoch_end
            self.cursor = one.cursor
        return Drawn(items=tuple(items), epoch=epoch, is_epoch_end=is_epoch_end) if items else None

    async def _one(self) -> ScenarioBatch[Any] | None:
        self.is_reading = True
        try:
            one = await anext(self._source, None)
        finally:
            self.is_reading = False
        if self.is_closed:
            raise asyncio.CancelledError
        return one
