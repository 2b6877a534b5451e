"""The training data as the trainer sees it: scenarios from a cursor on, whatever the source."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from artkit.errors import ConfigurationError
from artkit.scenarios import Cursor, ScenarioBatch, ScenarioOrder, ScenarioStream
from artkit.training.reader import Reader

if TYPE_CHECKING:
    from artkit.scenarios import Scenario
    from artkit.training.settings import TrainerSettings

__all__ = ["Feed"]


@dataclass(frozen=True)
class Feed:
    """The training data of a run.

    Args:
        source: A `ScenarioOrder`, or a `ScenarioStream` for an open-ended source.
        settings: Says how many scenarios make a batch, and how many epochs there are.
    """

    source: ScenarioOrder[Any] | ScenarioStream[Any]
    settings: TrainerSettings

    @classmethod
    def of(cls, train: object, settings: TrainerSettings) -> Feed:
        """Return the feed over `train`: a sequence, a `ScenarioOrder`, or an open-ended source.

        Raises:
            ConfigurationError: An open-ended source without `max_steps`, or data that holds no scenarios.
        """
        if isinstance(train, ScenarioOrder):
            return cls(train, settings)
        if isinstance(train, Sequence) and not isinstance(train, str):
            return cls(ScenarioOrder(train, seed=settings.seed), settings)
        stream = train if isinstance(train, ScenarioStream) else ScenarioStream(cast("Any", train))
        if settings.max_steps is None:
            raise ConfigurationError(
                "an open-ended source of scenarios has no end, and max_steps=None sets none",
                "give TrainerSettings(max_steps=…)",
            )
        return cls(stream, settings)

    @property
    def scenarios(self) -> Sequence[Scenario]:
        """All scenarios, where they are known beforehand; else none."""
        return self.source.scenarios if isinstance(self.source, ScenarioOrder) else ()

    @property
    def fingerprint(self) -> str:
        """Names the data: equal where the same batches would come.

        Those of an open-ended source nobody knows beforehand. What came before a batch, the cursor of the batch tells.
        """
        if isinstance(self.source, ScenarioOrder):
            return self.source.fingerprint
        return "open-ended"

    @property
    def total_batches(self) -> int | None:
        """How many batches the whole run has; None where it is not known."""
        if isinstance(self.source, ScenarioOrder):
            return self.source.num_batches(self.settings.groups_per_step, self.settings.num_epochs)
        return None

    @property
    def is_shuffled(self) -> bool:
        """Whether every part of the run sees the same mixture of scenarios."""
        return isinstance(self.source, ScenarioOrder) and self.source.shuffle

    def check_repeatable(self) -> None:
        """Refuse a source that what is taken from it now would be missing from later.

        Raises:
            ConfigurationError: It is open-ended and has no `seek(n)`.
        """
        if isinstance(self.source, ScenarioStream) and not self.source.can_seek:
            raise ConfigurationError(
                "the scenario that a smoke test takes from an open-ended source would be missing from the run",
                "give the source a method seek(n), or make the smoke test with a trainer over a list",
            )

    async def first(self, count: int) -> Sequence[Scenario]:
        """Return scenarios to try things on: all where they are known, else the first `count` if that loses none."""
        if isinstance(self.source, ScenarioOrder) or not self.source.can_seek:
            return self.scenarios
        found: list[Scenario] = []
        async with contextlib.aclosing(self._one_by_one(Cursor())) as source:
            async for batch in source:
                found += batch.items
                if len(found) >= count:
                    break
        return found

    @contextlib.asynccontextmanager
    async def reader(self, start: Cursor) -> AsyncIterator[Reader]:
        """Open the data at `start`."""
        source = self._one_by_one(start)
        reader = Reader(source, start, "the data" if isinstance(self.source, ScenarioOrder) else repr(self.source))
        try:
            yield reader
        finally:
            if not reader.is_reading:  # else it does not heed that it was cancelled, and cannot be closed either
                await source.aclose()

    async def _one_by_one(self, start: Cursor) -> AsyncGenerator[ScenarioBatch[Any]]:
        if isinstance(self.source, ScenarioOrder):
            for batch in self.source.batches(1, self.settings.num_epochs, start):
                yield batch
        else:
            async for batch in self.source.batches(1, start):
                yield batch
