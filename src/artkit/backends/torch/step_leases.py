"""Steps that somebody is using: their names are pinned, their checkpoints stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["StepLeases"]


class StepLeases:
    """The leases on one model's steps."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        # A lease pins the name for the tasks inside it only: others go on with the current step.
        self._pinned: ContextVar[int | None] = ContextVar("pinned_step", default=None)

    @property
    def pinned(self) -> int | None:
        """The step that the current task is inside a lease of."""
        return self._pinned.get()

    @property
    def steps(self) -> frozenset[int]:
        """Every step that anybody leases."""
        return frozenset(+self._counts)

    @contextmanager
    def lease(self, step: int) -> Iterator[None]:
        """Use `step` within it."""
        self._counts[step] += 1
        token = self._pinned.set(step)
        try:
            yield
        finally:
            self._pinned.reset(token)
            self._counts[step] -= 1
