"""Filling batches ahead of training."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from artkit.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Callable

    from artkit.training.filling import FilledBatch, Filler
    from artkit.training.reader import Reader

__all__ = ["Ahead"]

_PATIENCE_S = 10.0


class Ahead:
    """Fills the batches of a session in order, some of them while an earlier one is trained on.

    A batch is begun only where at most `lead` batches before it are not done with. So when it is trained on, the
    weights are at most `lead` steps newer than those that it was sampled from. With a lead of 0 nothing overlaps.

    A context manager: what is being filled when it ends is cancelled, and its environments are closed. A source of
    scenarios that does not heed it is given up after a while, and named.

    Args:
        filler: Fills.
        reader: Reads the data.
        first: The number of the session's first batch.
        lead: How many batches may be filled beyond the one that is waited for or trained on.
        step: Says the step of the weights that are sampled from.
        is_stopping: Says whether to begin nothing more.
        warn: Who is told, in words.
        most: How many batches that hold something to train on are enough; None is no limit.
    """

    def __init__(
        self,
        filler: Filler,
        reader: Reader,
        *,
        first: int,
        lead: int,
        step: Callable[[], int],
        is_stopping: Callable[[], bool],
        warn: Callable[[str], None],
        most: int | None,
    ) -> None:
        self._filler, self._reader = filler, reader
        self._step, self._is_stopping, self._warn = step, is_stopping, warn
        self._next_index, self._lead, self._most = first, lead, most
        self._slots = asyncio.Semaphore(lead + 1)
        self._filled: asyncio.Queue[FilledBatch | BaseException | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        if error is not None and self._error not in (None, error):
            failure = f"{type(self._error).__name__}: {self._error}"
            error.add_note(scrub(f"what was played ahead had failed too, with {failure}"))
        self._reader.is_closed = True
        self._task.add_done_callback(_look_at)  # it is raised where the batch is waited for
        self._task.cancel()
        is_cancelled = False
        while not self._task.done():
            try:
                await asyncio.wait({self._task}, timeout=_PATIENCE_S)
            except asyncio.CancelledError:
                is_cancelled = True  # once the environments are closed
                continue
            if not self._task.done() and self._reader.is_reading:
                self._warn(
                    f"{self._reader.name} is given up: its next scenario is still waited for, {_PATIENCE_S:g} s after "
                    "that was cancelled; let CancelledError pass there, else the program may not end"
                )
                break
        if is_cancelled:
            raise asyncio.CancelledError

    async def next(self) -> FilledBatch | None:
        """Return the next batch, None where the data is at its end. The batch before it is done with.

        Raises:
            BaseException: What `Filler.fill` raised, once the batches that were whole by then have come. What Python
                ends a program with, `SystemExit` and `KeyboardInterrupt`, does not wait for that: with a lead, the
                event loop itself raises it.
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
                if self._is_stopping():
                    break
                if (batch := await self._fill()) is None:
                    break
                trainable += bool(batch.trainable) and not batch.is_unscored
                self._filled.put_nowait(batch)
                batch = None  # or its episodes would stay in memory while the next ones are played
            self._filled.put_nowait(None)
        except BaseException as error:
            # Raised where the batch is waited for, whatever it is: also what looks like a cancellation, and is none.
            self._error = error
            self._filled.put_nowait(error)
            if not isinstance(error, Exception):
                raise

    async def _fill(self) -> FilledBatch | None:
        index = self._next_index
        self._next_index += 1
        return await self._filler.fill(index, self._reader, step=self._step)


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
