"""Splitting scenarios into train and validation, so that growing the data moves nothing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_id
from artkit.scenarios.content import content_digest
from artkit.scenarios.leaks import Match, check_match, find_leaks

__all__ = ["Split", "split_scenarios"]

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
    stratify_by: Callable[[ItemT], Hashable] | None = None,
    match: Match = "normalised",
) -> Split[ItemT]:
    """Split by a hash of the id: validation is where SHA-256 of seed and id, as a fraction of 1, is below the share.

    The side of a scenario follows from its own id, so that more data moves no scenario to the other side, and a larger
    share only moves scenarios from train to validation. The share is met on average, not exactly; of few scenarios, one
    side may have none.

    With `stratify_by` the share is met in each stratum, to one scenario: validation has those of the lowest hash. The
    last of them then depends on how many there are: where a stratum grows by a tenth, validation grows by a tenth, and
    what joins it may have been in train. Keep the ids of a stratified validation with the run if the data will grow.

    Args:
        scenarios: Objects that have an `id`.
        validation: The share of scenarios for validation, in (0, 1).
        seed: Draws another split.
        group_by: Given a scenario, returns what it belongs to (a document, a template, a user). What belongs together
            stays on one side.
        stratify_by: Given a scenario, returns its kind (a level, a topic, a language); each kind is split by itself.
            With `group_by` the share is met to one group, and a group is of one kind.
        match: What is refused as a leak, see `find_leaks`; "exact" where case or white space make another task.

    Raises:
        ConfigurationError: If `validation` is out of range, a scenario has no id, a group is of two kinds, or one task
            is on both sides: the same content under two ids (see `find_leaks`). With `group_by=lambda s: s.messages`
            prompts that are equal stay together.

    >>> from artkit.scenarios import Scenario
    >>> train, validation = split_scenarios([Scenario(id=str(n)) for n in range(1000)], validation=0.2)
    >>> len(train), len(validation)
    (792, 208)
    """
    if not 0 < validation < 1:
        msg = f"validation={validation!r} is no share between 0 and 1"
        raise ConfigurationError(msg, "validation=0.1 keeps a tenth of the scenarios for validation")
    check_match(match)
    _check_function("group_by", group_by)
    _check_function("stratify_by", stratify_by)
    items = list(scenarios)
    for number, scenario in enumerate(items):
        check_id(scenario, f"scenarios[{number}]")
    keys = [scenario.id if group_by is None else _key(group_by(scenario)) for scenario in items]  # type: ignore[attr-defined]
    if stratify_by is None:
        held_out = {key for key in keys if _fraction(seed, key) < validation}
    else:
        held_out = _held_out_of_each(keys, [stratify_by(scenario) for scenario in items], validation, seed)
    split = Split(
        train=tuple(item for item, key in zip(items, keys, strict=True) if key not in held_out),
        validation=tuple(item for item, key in zip(items, keys, strict=True) if key in held_out),
    )
    if leaks := find_leaks(split.train, split.validation, match=match):
        raise _leaking(split, leaks, is_grouped=group_by is not None)
    return split


def _leaking(split: Split[Any], leaks: Sequence[tuple[str, str]], *, is_grouped: bool) -> ConfigurationError:
    same = find_leaks(split.train, split.validation)
    in_train, in_validation = (same or leaks)[0]
    which = f": {in_train!r} in train is {in_validation!r} in validation"
    msg = f"{len(leaks)} tasks are on both sides"
    if not same:
        hint = 'match="exact" allows near-duplicates; or leave them out, or keep them together with group_by='
        return ConfigurationError(f"{msg} in another spelling{which}", hint)
    if len(same) < len(leaks):
        msg += f", {len(same)} of them letter by letter"
    hint = "leave the duplicates out; where only the id tells the tasks apart, such as a seed, make that a field"
    together = "a group_by= that gives both the same" if is_grouped else f"group_by={_content_of(split.train[0])}"
    return ConfigurationError(f"{msg}{which}", f"keep them together with {together}, or {hint}")


def _content_of(scenario: object) -> str:
    return "lambda s: s.messages" if hasattr(scenario, "messages") else "lambda s: dict(s) | {'id': None}"


def _check_function(name: str, value: object) -> None:
    if value is not None and not callable(value):
        key = value if isinstance(value, str) else "document"
        msg = f"{name}={value!r} is no function that is given a scenario"
        raise ConfigurationError(msg, f"write {name}=lambda s: s.metadata[{key!r}], or s.{key} where that is a field")


def _key(group: object) -> str:
    """Return the name of a group, equal in every process, which the words for a set or an object are not."""
    return str(group) if group is None or isinstance(group, str | int | float) else content_digest(group)


def _held_out_of_each(keys: Sequence[str], kinds: Sequence[Hashable], share: float, seed: int) -> set[str]:
    """Return the keys for validation: of each kind those of the lowest hash, as near to the share as they come."""
    sizes: dict[Hashable, dict[str, int]] = {}
    kind_of: dict[str, Hashable] = {}
    for key, kind in zip(keys, kinds, strict=True):
        if kind_of.setdefault(key, kind) != kind:
            msg = f"the group {key!r} is of two kinds: {kind_of[key]!r} and {kind!r}"
            raise ConfigurationError(msg, "a group stays on one side, so it has to be of one kind: stratify_by=")
        of_kind = sizes.setdefault(kind, {})
        of_kind[key] = of_kind.get(key, 0) + 1
    held_out: set[str] = set()
    for kind, of_kind in sizes.items():
        held_out.update(_lowest(of_kind, share, seed, kind))
    return held_out


def _lowest(sizes: Mapping[str, int], share: float, seed: int, kind: Hashable) -> Iterator[str]:
    # Rounded at random, or a hundred kinds of four scenarios each would have no validation at all.
    goal = math.floor(share * sum(sizes.values()) + _fraction(seed, f"kind:{content_digest(kind)}"))
    taken = 0
    for key in sorted(sizes, key=lambda key: (_fraction(seed, key), key)):
        if abs(taken + sizes[key] - goal) >= abs(taken - goal):
            return
        taken += sizes[key]
        yield key


def _fraction(seed: int, key: str) -> float:
    """Return a number in [0, 1) that follows from seed and key alone."""
    digest = hashlib.sha256(f"{seed}:{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
