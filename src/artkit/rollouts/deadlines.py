"""The deadline of a gather, which every rollout in it keeps beside its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from artkit.transport import Deadline

__all__ = ["episode_deadline", "gather_deadline", "is_time_left", "passed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _GatherDeadline:
    """When the rollouts of a gather are to be over.

    Attributes:
        timeout_s: How long the gather gives them, in seconds.
        at_s: When that is over, in the time of the event loop.
    """

    timeout_s: float
    at_s: float

    @property
    def left_s(self) -> float:
        """Seconds that are left; 0 where it has passed."""
        return max(0.0, self.at_s - asyncio.get_running_loop().time())


_deadline: ContextVar[_GatherDeadline | None] = ContextVar("artkit_gather_deadline", default=None)


@contextlib.contextmanager
def gather_deadline(timeout_s: float | None) -> Iterator[None]:
    """Have the rollouts that are started inside be over in `timeout_s` seconds; None changes nothing."""
    if timeout_s is None:
        yield
        return
    at_s = asyncio.get_running_loop().time() + timeout_s
    token = _deadline.set(_GatherDeadline(timeout_s=timeout_s, at_s=at_s))
    try:
        yield
    finally:
        _deadline.reset(token)


def is_time_left() -> bool:
    """Whether the gather, if this is one, has not passed its deadline."""
    gather = _deadline.get()
    return gather is None or gather.left_s > 0


def passed(timeout_s: float) -> str:
    """Say that the time which a gather gives its rollouts is over, and where it was set.

    >>> passed(3600)
    'the gather passed its 3600 s (timeout_s, or step_timeout_s of a Trainer)'
    """
    return f"the gather passed its {round(timeout_s, 1):g} s (timeout_s, or step_timeout_s of a Trainer)"


def episode_deadline(timeout_s: float | None, waiting_for: Callable[[], str]) -> Deadline:
    """Return the deadline of an episode that begins now: its own, or that of its gather where that is sooner.

    Args:
        timeout_s: The episode's own; None is no limit.
        waiting_for: Says whom the episode waits for.
    """
    gather = _deadline.get()
    if gather is None or (timeout_s is not None and timeout_s <= gather.left_s):
        return Deadline(timeout_s, lambda: f"the episode passed its {timeout_s} s while waiting for {waiting_for()}")
    return Deadline(
        gather.left_s,
        lambda: f"{passed(gather.timeout_s)} while the episode waited for {waiting_for()}",
    )
