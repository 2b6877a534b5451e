"""Filling batches ahead of training."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from artkit.training.filling import FilledBatch, Filler
    from artkit.training.reader import Reader

__all__ = ["Ahead"]


class Ahead:
    """Fills the batches of a session in order, some of them while an earlier one is trained on.

    A batch is begun only where at most `lead` batches before it are not done with. So when it is trained on, the
    weights are at most `lead` steps newer than those that it was sampled from. With a lead of 0 nothing overlaps.

    A context manager: what is being filled when it ends is cancelled, and its environments are closed.

    Args:
        filler: Fills.
        reader: Reads the data.
        first: The number of the session's first batch.
        lead: How many batches may be filled beyond the one that is waited for or trained on.
        step: Says the step of the weights that are sampled from.
        most: How many batches that hold something to train on are enough; None is no limit.
    """

    def __init__(
        self, filler: Filler, reader: Reader, *, first: int, lead: int, step: Callable[[], int], most: int | None
    ) -> None:
        self._filler, self._reader, self._step = filler, reader, step
        self._next_index, self._lead, self._most = first, lead, most
        self._slots = asyncio.Semaphore(lead + 1)
        self._filled: asyncio.Queue[FilledBatch | BaseException | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        self._task.cancel()
        is_cancelled = False
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                is_cancelled = True  # once the environments are closed
        if not self._task.cancelled():
            self._task.exception()  # looked at: it was raised where the batch was waited for
        if is_cancelled:
            raise asyncio.CancelledError

    async def next(self) -> FilledBatch | None:
        """Return the next batch, None where the data is at its end. The batch before it is done with.

        Raises:
            BaseException: What `Filler.fill` raised, once the batches that were whole by then have come.
        """
        if not self._lead:
            return await self._fill()
        if self._task is None:
            self._task = asyncio.create_task(self._fill_all())
        else:
            self._slots.release()
        batch = await self._filled.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    async def _fill_all(self) -> None:
        trainable = 0
        batch: FilledBatch | None = None
        try:
            while self._most is None or trainable < self._most:
                await self._slots.acquire()
                if (batch := await self._fill()) is None:
                    break
                trainable += bool(batch.trainable) and not batch.is_unscored
                self._filled.put_nowait(batch)
                batch = None  # or its episodes would stay in memory while the next ones are played
            self._filled.put_nowait(None)
        except BaseException as error:
            # Raised where the batch is waited for, whatever it is: also what looks like a cancellation, and is none.
            self._filled.put_nowait(error)
            if not isinstance(error, Exception):
                raise

    async def _fill(self) -> FilledBatch | None:
        index = self._next_index
        self._next_index += 1
        return await self._filler.fill(index, self._reader, step=self._step)
