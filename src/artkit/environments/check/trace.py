"""What an episode looked like from outside: the entries of two plays are compared one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artkit.environments.check.plain import plain, shortened_pair

__all__ = ["FIRST_MESSAGES", "Difference", "Trace", "first_difference"]

FIRST_MESSAGES = "the first messages"
"""What an entry with the prompt is called."""

# Metrics that measure a time by their name: no two plays take equally long, and nothing is trained on them.
_TIMES = {"sec", "secs", "seconds", "minutes", "ms", "us", "ns", "time", "timing", "duration", "latency", "elapsed",
          "wall", "runtime", "walltime"}  # fmt: skip
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@dataclass
class Trace:
    """The entries of one play, in order: the turn, what it is, and its value as plain data."""

    entries: list[tuple[int, str, Any]] = field(default_factory=list)

    def add(self, turn: int, what: str, value: Any) -> None:
        """Add an entry, as the value is now."""
        self.entries.append((turn, what, plain(value)))

    def add_metrics(self, turn: int, metrics: Any) -> None:
        """Add metrics, but for those that measure a time."""
        if isinstance(metrics, Mapping):
            metrics = {name: value for name, value in metrics.items() if not _is_time(str(name))}
        self.add(turn, "the metrics", metrics)

    def start(self) -> Trace:
        """Return what came before the first reply of the model."""
        return Trace([entry for entry in self.entries if entry[0] == 0])


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two plays part.

    Attributes:
        turn: After which reply; 0 is the start.
        what: What differs.
        expected: The value in the first play, shortened.
        got: The value in the second, shortened.
    """

    turn: int
    what: str
    expected: str
    got: str


def first_difference(expected: Trace, got: Trace) -> Difference | None:
    """Return where `got` parts from `expected`; None where they are equal.

    >>> left, right = Trace([(0, "the first messages", "a"), (1, "the reward", 1.0)]), Trace([(0, "x", "a")])
    >>> first_difference(left, left)
    """
    for one, other in zip(expected.entries, got.entries, strict=False):
        if tuple(one) != tuple(other):
            same_place = one[:2] == other[:2]
            left, right = (one[2], other[2]) if same_place else ({one[1]: one[2]}, {other[1]: other[2]})
            texts = shortened_pair(left, right)
            return Difference(turn=min(one[0], other[0]), what=one[1], expected=texts[0], got=texts[1])
    if len(expected.entries) == len(got.entries):
        return None
    shorter = min(len(expected.entries), len(got.entries))
    turn, what, value = max(expected.entries, got.entries, key=len)[shorter]
    sides = ("nothing", shortened_pair(value, value)[0])
    left, right = sides if len(got.entries) > shorter else sides[::-1]
    return Difference(turn=turn, what=what, expected=left, got=right)


def _is_time(name: str) -> bool:
    """Whether a metric measures a time.

    >>> [_is_time(name) for name in ("search_s", "time/search", "avgLatency", "items", "s_rank", "times_asked")]
    [True, True, True, False, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    return words[-1:] == ["s"] or words[-2:] == ["per", "second"] or not _TIMES.isdisjoint(words)
