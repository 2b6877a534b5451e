"""A mixture of tasks: an order in which each has its share."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_positive, check_scenarios
from artkit.scenarios.cursor import Cursor
from artkit.scenarios.order import ScenarioOrder

__all__ = ["ScenarioMixture"]

ItemT = TypeVar("ItemT")


class ScenarioMixture(ScenarioOrder[ItemT]):
    """An order in which every task has its share of each epoch, spread evenly over it.

    Weights are relative: with 3 and 1, three of four scenarios are of the first task. Within an epoch no scenario of a
    task comes more than once more often than another of it, and over the epochs they take turns; in the first k of an
    epoch, a task is within about one scenario for each task of its share of k, so that no batch lacks one for long.
    As every order it is known in every epoch without playing those before.

    >>> from artkit.scenarios import Scenario
    >>> sums, words = [Scenario(id=f"sum-{n}") for n in range(4)], [Scenario(id="word-0"), Scenario(id="word-1")]
    >>> mixture = ScenarioMixture({"sums": (sums, 1), "words": (words, 1)})
    >>> mixture
    ScenarioMixture(epochs of 8: 4 of 4 sums, 4 of 2 words; seed=0, shuffle=True)
    >>> [mixture.task_of(item) for item in mixture.epoch(0)].count("words")
    4

    Args:
        tasks: For each task its scenarios, objects with an `id` that no other scenario has, and its weight.
        seed: Seeds every epoch's order.
        shuffle: Whether each task's scenarios are shuffled; if not, they come in their order.
        epoch_size: Scenarios in an epoch. None is the least in which every scenario comes; the small tasks then repeat
            theirs. With fewer, the large tasks take several epochs to come to all of theirs.

    Raises:
        ConfigurationError: If there are no tasks, one has no scenarios or a weight that is no positive number, an id
            comes twice, or `epoch_size` leaves a task no place.
    """

    def __init__(
        self,
        tasks: Mapping[str, tuple[Sequence[ItemT], float]],
        *,
        seed: int = 0,
        shuffle: bool = True,
        epoch_size: int | None = None,
    ) -> None:
        if not isinstance(tasks, Mapping) or not tasks:
            msg = "tasks={} is empty" if not tasks else f"tasks is a {type(tasks).__name__}, which names no task"
            raise ConfigurationError(msg, 'give at least one, as in {"sums": (scenarios, 1)}')
        self.tasks: dict[str, tuple[ItemT, ...]] = {}
        for name, task in tasks.items():
            scenarios, weight = _pair(name, task)
            check_scenarios(scenarios)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
                msg = f"the weight of task {name!r} is {weight!r}"
                raise ConfigurationError(msg, "a weight is a positive number; leave the task out to have none of it")
            self.tasks[name] = scenarios
        self._task_of = self._names()
        super().__init__([item for items in self.tasks.values() for item in items], seed=seed, shuffle=shuffle)
        # Of the decimals that were written: 0.7 and 0.3 make 7 and 3 of 10, which their floats miss.
        weights = {name: Fraction(str(weight)) for name, (_, weight) in tasks.items()}
        self.counts = _counts({name: len(items) for name, items in self.tasks.items()}, weights, epoch_size)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __repr__(self) -> str:
        parts = ", ".join(f"{count} of {len(self.tasks[name])} {name}" for name, count in self.counts.items())
        return f"ScenarioMixture(epochs of {len(self)}: {parts}; seed={self.seed!r}, shuffle={self.shuffle!r})"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256, as 64 hex digits, of all that decides the batches: also names of tasks, and their counts."""
        sizes = [(name, len(self.tasks[name]), count) for name, count in self.counts.items()]
        return hashlib.sha256(f"{super().fingerprint}:{sizes!r}".encode()).hexdigest()

    def task_of(self, scenario: object) -> str:
        """Return the name of the task that `scenario` belongs to, by its id.

        Raises:
            ConfigurationError: If it belongs to none.
        """
        name = self._task_of.get(getattr(scenario, "id", None))
        if name is None:
            msg = f"{scenario!r} is no scenario of the mixture"
            hint = "for scenarios that are held out, give TaskRollout a task_of of your own that knows them too"
            raise ConfigurationError(msg, f"its tasks are {', '.join(map(repr, self.tasks))}; {hint}")
        return name

    def epoch(self, number: int) -> tuple[ItemT, ...]:
        """Return the scenarios of epoch `number`, from 0, in its order."""
        Cursor(epoch=number)  # refuses what is no epoch
        placed: list[tuple[float, ItemT]] = []
        for name, count in self.counts.items():
            chance = random.Random(f"{self.seed}:{number}:{name}")  # no secret: anyone may know the order
            for turn, item in enumerate(self._turns(name, number, chance)):
                # One in each of `count` equal pieces of the epoch.
                placed.append(((turn + (chance.random() if self.shuffle else 0.5)) / count, item))
        return tuple(item for _, item in sorted(placed, key=lambda pair: pair[0]))

    def _turns(self, name: str, epoch: int, chance: random.Random) -> list[ItemT]:
        """Return the scenarios of a task in the order in which they come in an epoch."""
        items, count = list(self.tasks[name]), self.counts[name]
        if self.shuffle:
            random.Random(f"{self.seed}:{name}").shuffle(items)
        whole, rest = divmod(count, len(items))
        # All of them as often as it goes; the rest goes around, on from where the last epoch stopped.
        rounds = [list(items) for _ in range(whole)]
        rounds.append([items[place % len(items)] for place in range(epoch * rest, (epoch + 1) * rest)])
        if self.shuffle:
            for items_of_round in rounds:
                chance.shuffle(items_of_round)
        return [item for items_of_round in rounds for item in items_of_round]

    def _names(self) -> dict[object, str]:
        names: dict[object, str] = {}
        for name, items in self.tasks.items():
            for item in items:
                identity = getattr(item, "id")  # noqa: B009  # any object with an id is a scenario
                first = names.setdefault(identity, name)
                if first != name:
                    msg = f"the tasks {first!r} and {name!r} both have a scenario {identity!r}"
                    hint = f"rename one, as in scenario.model_copy(update={{'id': {name + '-' + identity!r}}})"
                    raise ConfigurationError(msg, hint)
        return names


def _pair(name: str, task: object) -> tuple[tuple[Any, ...], Any]:
    """Return the scenarios and the weight of a task."""
    scenarios, weight = task if isinstance(task, tuple) and len(task) == 2 else (task, None)
    if weight is None or not isinstance(scenarios, Iterable):
        msg = f"the task {name!r} is a {type(task).__name__}, not its scenarios and its weight"
        raise ConfigurationError(msg, f"give both, as in {{{name!r}: (scenarios, 1)}}")
    return tuple(scenarios), weight


def _counts(sizes: Mapping[str, int], weights: Mapping[str, Fraction], epoch_size: int | None) -> dict[str, int]:
    """Return how many scenarios of each task an epoch has: its share, rounded so that the sum is the epoch's size."""
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}
    if epoch_size is None:
        epoch_size = math.ceil(max(sizes[name] / share for name, share in shares.items()))
    check_positive("epoch_size", epoch_size)
    counts = {name: math.floor(epoch_size * share) for name, share in shares.items()}
    missing = epoch_size - sum(counts.values())
    by_rest = sorted(shares, key=lambda name: counts[name] - epoch_size * shares[name])
    for name in by_rest[:missing]:
        counts[name] += 1
    if without := [name for name, count in counts.items() if not count]:
        msg = f"epoch_size={epoch_size} leaves no place for the task {without[0]!r}"
        raise ConfigurationError(msg, f"epoch_size={math.ceil(1 / min(shares.values()))} has one for each")
    return counts
