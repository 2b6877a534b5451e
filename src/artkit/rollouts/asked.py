"""Which inference names rollouts ask, told to whoever gathers them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

__all__ = ["names_asked", "note_asked"]

_asked: ContextVar[defaultdict[str, set[str]] | None] = ContextVar("artkit_asked", default=None)


@contextlib.contextmanager
def names_asked() -> Iterator[Mapping[str, set[str]]]:
    """Yield the inference names of trainable models that the rollouts begun inside ask, by the scenario that they play.

    A name is there from the moment that its rollout begins.
    """
    asked: defaultdict[str, set[str]] = defaultdict(set)
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def note_asked(scenario_id: str, name: str) -> None:
    """Note that a rollout of the scenario asks `name`."""
    if (asked := _asked.get()) is not None:
        asked[scenario_id].add(name)
