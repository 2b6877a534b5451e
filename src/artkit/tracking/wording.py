"""Numbers in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["counted", "some", "spans"]


def counted(count: int, noun: str) -> str:
    """Return the count and its noun, which takes an s unless there is one of it.

    >>> counted(1, "rollout"), counted(0, "rollout"), counted(1200, "rollout")
    ('1 rollout', '0 rollouts', '1,200 rollouts')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def some(names: Sequence[str], *, most: int = 5) -> str:
    """Return the first names, and that there are more.

    >>> some(["a", "b", "c"], most=2)
    'a, b, …'
    """
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def spans(steps: Iterable[int]) -> str:
    """Return the steps in order, neighbours joined.

    >>> spans([7, 1, 2, 3, 9, 10])
    '1-3, 7, 9-10'
    """
    runs: list[list[int]] = []
    for step in sorted(steps):
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
