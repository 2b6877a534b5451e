"""Which functions need a thread, and how many may compute at once."""

from __future__ import annotations

import inspect

from artkit.transport import ConcurrencyLimit

__all__ = ["is_async", "off_loop_slots"]

off_loop_slots = ConcurrencyLimit(32)
"""For functions that compute: held around `run_off_loop`, so that a thousand members do not contend for the interpreter
while their deadlines run. A function that is given up at its deadline frees its slot, or those that hang would starve
the rest."""


def is_async(function: object) -> bool:
    """Whether `function`, or the `__call__` of its class, is plainly async, and so needs no thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
