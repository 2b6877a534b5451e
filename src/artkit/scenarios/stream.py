"""An open-ended source of scenarios: any iterator or async iterator, cut into batches."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from artkit.errors import ConfigurationError, ResumeError
from artkit.scenarios.batch import ScenarioBatch
from artkit.scenarios.checks import check_id, check_positive
from artkit.scenarios.cursor import BEGINNING, Cursor
from artkit.scenarios.own_thread import OwnThread

__all__ = ["ScenarioStream"]

ItemT = TypeVar("ItemT")

_END: Any = object()


class ScenarioStream(Generic[ItemT]):
    """An open-ended source: it has no epochs, and need not end.

    Nothing is read ahead of what is played, so a source may choose the next scenario by what was learned from the last;
    with `max_staleness` the rollouts of the next steps, and so their scenarios, come before that is known. `next` of a
    synchronous source runs in a thread of the stream's own: it may wait for a disk or a network without holding up the
    rollouts, and it is always the same thread, which a generator over a database connection needs.

    Args:
        source: An iterator, iterable, async iterator or async iterable of objects that have an `id`. If it has a
            method `seek(n)`, sync or async, that makes item number `n` (from 0) the next one, a run over it can be
            resumed; `seek` is called each time before reading begins. If it also has a `fingerprint`, a str that
            follows from the items before the next one and is equal in every process, a run is not resumed where other
            items come before its place than those that it has seen; what comes after may change and grow.

    Raises:
        ConfigurationError: If `source` can't be iterated over.
    """

    def __init__(self, source: Iterable[ItemT] | AsyncIterable[ItemT]) -> None:
        if not hasattr(source, "__iter__") and not hasattr(source, "__aiter__"):
            hint = "give an iterator or async iterator; a generator function has to be called first"
            raise ConfigurationError(f"{source!r} can't be iterated over", hint)
        self._source = source
        self._taken = 0

    def __repr__(self) -> str:
        return f"ScenarioStream({self._source!r}, {'can' if self.can_seek else 'can not'} be resumed)"

    @property
    def can_seek(self) -> bool:
        """Whether a run over this source can be resumed."""
        return callable(getattr(self._source, "seek", None))

    def batches(self, groups_per_step: int, start: Cursor = BEGINNING) -> AsyncIterator[ScenarioBatch[ItemT]]:
        """Return the batches from `start` on, lazily; the last one is short where the source ends inside it.

        Args:
            groups_per_step: Scenarios in a batch, 1 or more.
            start: The cursor of the last batch that was finished.

        Raises:
            ConfigurationError: If `groups_per_step` is no positive integer (at once), or an item has no id.
            ResumeError: If the source stands elsewhere than `start` and has no `seek`, or has other items before it;
                before anything is handed out.
        """
        check_positive("groups_per_step", groups_per_step)
        return self._batches(groups_per_step, start)

    async def _batches(self, groups_per_step: int, start: Cursor) -> AsyncIterator[ScenarioBatch[ItemT]]:
        thread = OwnThread()
        try:
            take = await self._open(start, thread)
            index = -(-start.position // groups_per_step)
            is_open = True
            while is_open:
                items: list[ItemT] = []
                while len(items) < groups_per_step and (item := await take()) is not _END:
                    check_id(item, f"item {self._taken} of the source")
                    self._taken += 1
                    items.append(item)
                is_open = len(items) == groups_per_step
                if items:
                    cursor = Cursor(0, self._taken, fingerprint=await self._fingerprint(thread))
                    yield ScenarioBatch(items=tuple(items), index=index, epoch=0, cursor=cursor, is_epoch_end=False)
                index += 1
        finally:
            thread.close()

    async def _open(self, start: Cursor, thread: OwnThread) -> Callable[[], Awaitable[Any]]:
        """Bring the source to `start`, and return what takes the next item, or `_END`."""
        source: Any = self._source
        if self.can_seek:
            moved = await thread.run(lambda: source.seek(start.position))
            if inspect.isawaitable(moved):
                await moved
            self._taken = start.position
            if start.fingerprint and await self._fingerprint(thread) not in ("", start.fingerprint):
                raise ResumeError(
                    f"the first {start.position} scenarios of the source are others than those that the run has seen",
                    'put them back as they were (later ones may change), or begin a new run (resume="never")',
                )
        if hasattr(source, "__aiter__"):
            async_iterator = aiter(source)
            self._check_start(start, is_fresh=async_iterator is not source)
            return lambda: anext(async_iterator, _END)
        iterator = await thread.run(lambda: iter(source))
        self._check_start(start, is_fresh=iterator is not source)

        async def take() -> Any:
            try:
                return await thread.run(lambda: next(iterator, _END))
            except asyncio.CancelledError:
                self._taken += 1  # The item comes when nobody waits for it any more, and is lost.
                raise

        return take

    async def _fingerprint(self, thread: OwnThread) -> str:
        """Return what the source says of the items that were taken; nothing where it can't."""
        if not self.can_seek:
            return ""
        fingerprint = await thread.run(lambda: getattr(self._source, "fingerprint", ""))
        return fingerprint if isinstance(fingerprint, str) else ""

    def _check_start(self, start: Cursor, *, is_fresh: bool) -> None:
        """Refuse to read from a place that the source doesn't stand at."""
        if is_fresh and not self.can_seek:
            self._taken = 0
        if start.epoch != 0 or start.position != self._taken:
            problem = f"the source stands at item {self._taken}, the run would go on at {start!r}"
            if self.can_seek:
                raise ResumeError(problem, "an open-ended source has no epochs: was the run started on other data?")
            hint = (
                'give the source a method seek(n), or begin a new run (resume="never"), '
                "or give the scenarios as a list, which always resumes"
            )
            raise ResumeError(problem, hint)
