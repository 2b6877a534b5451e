"""The order of scenarios: which batch comes when, in every epoch, resumed or not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Generic, TypeVar

from artkit.scenarios.batch import ScenarioBatch
from artkit.scenarios.checks import check_positive, check_scenarios
from artkit.scenarios.content import content_digest
from artkit.scenarios.cursor import BEGINNING, Cursor

__all__ = ["ScenarioOrder"]

ItemT = TypeVar("ItemT")


class ScenarioOrder(Generic[ItemT]):
    """Knows the order of every epoch.

    Each epoch is shuffled by a generator of its own, seeded with `f"{seed}:{epoch}"`, so that epoch 7 is known without
    playing epochs 0 to 6 and the global generator is neither read nor moved. Works in any ART loop:

    >>> from artkit.scenarios import Scenario
    >>> order = ScenarioOrder([Scenario(id=name) for name in "abc"], seed=3)
    >>> [[item.id for item in batch.items] for batch in order.batches(2, num_epochs=2)]
    [['b', 'a'], ['c'], ['a', 'c'], ['b']]

    Args:
        scenarios: The scenarios: any sequence of objects that have an `id`, each id once.
        seed: Seeds every epoch's order.
        shuffle: Whether epochs are shuffled; if not, each has the order of `scenarios`.

    Raises:
        ConfigurationError: If there are no scenarios, one has no id, or two have the same.
    """

    def __init__(self, scenarios: Sequence[ItemT], *, seed: int = 0, shuffle: bool = True) -> None:
        self.scenarios: tuple[ItemT, ...] = tuple(scenarios)
        self.seed = seed
        self.shuffle = shuffle
        check_scenarios(self.scenarios)

    def __len__(self) -> int:
        return len(self.scenarios)

    def __repr__(self) -> str:
        return f"ScenarioOrder({len(self)} scenarios, seed={self.seed!r}, shuffle={self.shuffle!r})"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256, as 64 hex digits, of all that decides the batches: contents in order, seed, shuffle."""
        digest = hashlib.sha256(f"{self.seed!r}:{self.shuffle!r}".encode())
        for scenario in self.scenarios:
            digest.update(content_digest(scenario).encode())
        return digest.hexdigest()

    def epoch(self, number: int) -> tuple[ItemT, ...]:
        """Return all scenarios in the order of epoch `number`, from 0."""
        Cursor(epoch=number)  # refuses what is no epoch
        if not self.shuffle:
            return self.scenarios
        shuffled = list(self.scenarios)
        random.Random(f"{self.seed}:{number}").shuffle(shuffled)  # no secret: anyone may know the order
        return tuple(shuffled)

    def batches(
        self, groups_per_step: int, num_epochs: int | None = 1, start: Cursor = BEGINNING
    ) -> Iterator[ScenarioBatch[ItemT]]:
        """Return the batches from `start` on, lazily.

        A batch never crosses an epoch: the last one of an epoch may be short, and nothing is left out.

        Args:
            groups_per_step: Scenarios in a batch, 1 or more.
            num_epochs: Epochs of the whole run, counted from its beginning and not from `start`; None is endless.
            start: The cursor of the last batch that was finished. At or past the end nothing is left to yield; a
                position at or past the end of its epoch stands for the beginning of the next.

        Raises:
            ConfigurationError: If `groups_per_step` or `num_epochs` is no positive integer; at once, not at the first
                batch.
        """
        check_positive("groups_per_step", groups_per_step)
        if num_epochs is not None:
            check_positive("num_epochs", num_epochs)
        return self._batches(groups_per_step, num_epochs, start)

    def num_batches(self, groups_per_step: int, num_epochs: int = 1, start: Cursor = BEGINNING) -> int:
        """Return how many batches `batches` with the same arguments yields."""
        check_positive("groups_per_step", groups_per_step)
        check_positive("num_epochs", num_epochs)
        return max(0, num_epochs * _ceil(len(self), groups_per_step) - self._index(groups_per_step, start))

    def _batches(self, groups_per_step: int, num_epochs: int | None, start: Cursor) -> Iterator[ScenarioBatch[ItemT]]:
        index = self._index(groups_per_step, start)
        begin = start.position
        for epoch in count(start.epoch) if num_epochs is None else range(start.epoch, num_epochs):
            items = self.epoch(epoch)
            for position in range(begin, len(items), groups_per_step):
                end = min(position + groups_per_step, len(items))
                is_epoch_end = end == len(items)
                yield ScenarioBatch(
                    items=items[position:end],
                    index=index,
                    epoch=epoch,
                    cursor=Cursor(epoch + 1) if is_epoch_end else Cursor(epoch, end),
                    is_epoch_end=is_epoch_end,
                )
                index += 1
            begin = 0

    def _index(self, groups_per_step: int, start: Cursor) -> int:
        """Return the number of the batch at `start`."""
        position = min(start.position, len(self))
        return start.epoch * _ceil(len(self), groups_per_step) + _ceil(position, groups_per_step)


def _ceil(items: int, size: int) -> int:
    return -(-items // size)
