"""The group filter: which groups are worth training on."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

__all__ = ["AnyFilter", "FilterResult", "GroupFilter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """What a filter kept and what it dropped, in the order of the input; together they are the input.

    Attributes:
        kept: The groups to train on.
        dropped: The others, each with the reason.
        counts: How many each filter dropped, by its name.
    """

    kept: list[art.TrajectoryGroup]
    dropped: list[tuple[art.TrajectoryGroup, str]]
    # Not compared: filters of other names may keep and drop the same, for the same reasons.
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), compare=False)


class GroupFilter(ABC):
    """Says which groups are not worth training on, and why.

    Pure: groups are looked at one by one and never changed. So filters joined by `|` keep the same groups in any
    order, and as many as when applied one after the other. Subclasses are frozen dataclasses.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """What the filter is called in the log: the class's name in snake case, without a leading "Drop".

        >>> from artkit import DropZeroVariance
        >>> DropZeroVariance().name
        'zero_variance'
        """
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower().removeprefix("drop_")

    @abstractmethod
    def reason(self, group: art.TrajectoryGroup) -> str | None:
        """Return why `group` is dropped, or None to keep it."""

    def apply(self, groups: Iterable[art.TrajectoryGroup]) -> FilterResult:
        """Return what is kept of `groups` and what is dropped.

        Raises:
            ConfigurationError: A filter's reason is neither a text nor None.
        """
        kept: list[art.TrajectoryGroup] = []
        dropped: list[tuple[art.TrajectoryGroup, str]] = []
        counts: dict[str, int] = {}
        for group in groups:
            found = _first_reason(_parts(self), group)
            if found is None:
                kept.append(group)
            else:
                name, reason = found
                dropped.append((group, reason))
                counts[name] = counts.get(name, 0) + 1
        return FilterResult(kept=kept, dropped=dropped, counts=MappingProxyType(counts))

    def __or__(self, other: GroupFilter) -> GroupFilter:
        """Return the filter that drops what either drops; the first that does gives the reason."""
        if not isinstance(other, GroupFilter):
            return NotImplemented
        filters = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        return filters[0] if len(filters) == 1 else AnyFilter(filters)


@dataclass(frozen=True, slots=True, repr=False)
class AnyFilter(GroupFilter):
    """Drops what any of its filters drops; `|` makes it.

    Attributes:
        filters: What was joined, in order.
    """

    filters: tuple[GroupFilter, ...]

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        """Return the first reason that a filter gives, or None."""
        found = _first_reason(self.filters, group)
        return found and found[1]

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.filters))


def _parts(group_filter: GroupFilter) -> tuple[GroupFilter, ...]:
    return group_filter.filters if isinstance(group_filter, AnyFilter) else (group_filter,)


def _first_reason(filters: Iterable[GroupFilter], group: art.TrajectoryGroup) -> tuple[str, str] | None:
    """Return the name and the reason of the first filter that drops `group`, or None."""
    for each in filters:
        try:
            reason: object = each.reason(group)
        except Exception as error:
            error.add_note(f"raised by the filter {each!r}")
            raise
        if reason is None:
            continue
        if not isinstance(reason, str) or not reason:
            raise ConfigurationError(
                f"the filter {each!r} gave the reason {reason!r}",
                "return why the group is dropped, as a text, or None to keep it",
            )
        return each.name, reason
    return None
