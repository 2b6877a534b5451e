"""What the lists of scenarios that adapters make have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from artkit.errors import ConfigurationError
from artkit.scenarios.content import content_digest

__all__ = ["counted_seeds", "name_with"]


def counted_seeds(count: int, seed: int) -> Iterable[int]:
    """Return the seeds of `count` scenarios, from `seed` on.

    Raises:
        ConfigurationError: It is no count, or no seed that every generator takes.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"count={count!r} is no number of scenarios", "give 1 or more")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigurationError(f"seed={seed!r} is no seed", "give a whole number from 0")
    return range(seed, seed + count)


def name_with(name: str, **what_differs: Any) -> str:
    """Return the beginning of an id: `name`, and a digest of what is not as usual, where there is anything.

    >>> name_with("chain_sum", settings={})
    'chain_sum'
    >>> name_with("chain_sum", settings={"max_terms": 3})
    'chain_sum-...'
    """
    given = {key: value for key, value in what_differs.items() if value not in (None, {}, ())}
    return f"{name}-{content_digest(given)[:8]}" if given else name
