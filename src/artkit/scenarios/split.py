"""Splitting scenarios into train and validation, so that growing the data moves nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_id
from artkit.scenarios.content import content_digest

__all__ = ["Split", "find_leaks", "split_scenarios"]

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Generic[ItemT]):
    """The two sides of a split, each in the order of the input; unpacks as `train, validation`."""

    train: tuple[ItemT, ...]
    validation: tuple[ItemT, ...]

    def __iter__(self) -> Iterator[tuple[ItemT, ...]]:
        return iter((self.train, self.validation))


def split_scenarios(
    scenarios: Iterable[ItemT],
    *,
    validation: float = 0.1,
    seed: int = 0,
    group_by: Callable[[ItemT], Any] | None = None,
) -> Split[ItemT]:
    """Split by a hash of the id: validation is where SHA-256 of seed and id, as a fraction of 1, is below the share.

    The side of a scenario follows from its own id, so that more data moves no scenario to the other side, and a larger
    share only moves scenarios from train to validation. The share is met on average, not exactly.

    Args:
        scenarios: Objects that have an `id`.
        validation: The share of scenarios for validation, in (0, 1).
        seed: Draws another split.
        group_by: Given a scenario, returns what it belongs to (a document, a template, a user). What belongs together
            stays on one side.

    Raises:
        ConfigurationError: If `validation` is out of range, a scenario has no id, or one task is on both sides: the
            same messages under two ids (see `find_leaks`).

    >>> from artkit.scenarios import Scenario
    >>> train, validation = split_scenarios([Scenario(id=str(n)) for n in range(1000)], validation=0.2)
    >>> len(train), len(validation)
    (792, 208)
    """
    if not 0 < validation < 1:
        msg = f"validation={validation!r} is no share between 0 and 1"
        raise ConfigurationError(msg, "validation=0.1 keeps a tenth of the scenarios for validation")
    sides: tuple[list[ItemT], list[ItemT]] = ([], [])
    for number, scenario in enumerate(scenarios):
        check_id(scenario, f"scenarios[{number}]")
        key = str(scenario.id if group_by is None else group_by(scenario))  # type: ignore[attr-defined]
        sides[_fraction(seed, key) < validation].append(scenario)
    split = Split(train=tuple(sides[0]), validation=tuple(sides[1]))
    leaks = find_leaks(split.train, split.validation)
    if leaks:
        in_train, in_validation = leaks[0]
        msg = f"{len(leaks)} tasks are on both sides: {in_train!r} in train is {in_validation!r} in validation"
        raise ConfigurationError(msg, "leave the duplicates out, or keep them together with group_by=")
    return split


def find_leaks(train: Iterable[Any], validation: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """Return the tasks that are on both sides, as pairs of their ids (in train, in validation).

    Two scenarios are the same task if their ids are equal or, where both have `messages`, those are. Scenarios of
    another type are told apart by id alone, for their environment may draw everything else from it.
    """
    known: dict[str, str] = {}
    for scenario in train:
        known.update(dict.fromkeys(_identities(scenario), str(scenario.id)))
    leaks: dict[tuple[str, str], None] = {}
    for scenario in validation:
        for identity in _identities(scenario):
            if identity in known:
                leaks[known[identity], str(scenario.id)] = None
    return tuple(leaks)


def _identities(scenario: Any) -> Iterator[str]:
    yield f"id:{scenario.id}"
    messages = getattr(scenario, "messages", None)
    if messages:
        yield f"messages:{content_digest(messages)}"


def _fraction(seed: int, key: str) -> float:
    """Return a number in [0, 1) that follows from seed and key alone."""
    digest = hashlib.sha256(f"{seed}:{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
