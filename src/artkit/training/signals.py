"""What Ctrl-C and SIGTERM mean to a run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from artkit.transport import end_soon_if_interrupted, handled_signal, is_first_interrupt, say_cleanup_runs

__all__ = ["STOPPED", "StopRequest", "run_signals"]

_LOG = logging.getLogger(__name__)

STOPPED = "stopped: SIGTERM"
"""The reason of a run that was asked to end before its time."""


@dataclass
class StopRequest:
    """Whether somebody wants the run to end after the step it is at.

    Attributes:
        reason: Why, as the report is to say it; None where nobody does.
    """

    reason: str | None = None


@contextlib.contextmanager
def run_signals() -> Iterator[StopRequest]:
    """Have signals end what runs inside, and yield what SIGTERM asks for.

    The first Ctrl-C does what Python has it do, where what runs is cancelled rather than cut in two; a further one says
    that clean-up is running and leaves it alone. SIGTERM asks to stop after the step, and a second one is as Ctrl-C.
    Signals that the program handles itself are left to it, and those that cannot be handled here are nobody's.
    """
    task = asyncio.current_task()
    request = StopRequest()
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        end_soon_if_interrupted()
        if interrupts == 2:  # once
            say_cleanup_runs()
        elif interrupts == 1 and task is not None and (pythons is None or not is_first_interrupt(pythons)):
            # It is no first one where another run, beside this, has heard of that, and was ended together with it.
            if task.cancelling():
                say_cleanup_runs()
            else:
                task.cancel()

    def terminate() -> None:
        if request.reason is not None:
            interrupt()
            return
        request.reason = STOPPED
        _LOG.warning("SIGTERM: the run ends when this step is done and saved; a second one ends it at once")

    with handled_signal(signal.SIGINT, interrupt) as pythons, handled_signal(signal.SIGTERM, terminate):
        try:
            yield request
        except asyncio.CancelledError:
            if not interrupts:
                raise
            # Without the way down to where it was cancelled: whoever pressed Ctrl-C wants no pages about it.
            raise (KeyboardInterrupt if pythons is signal.default_int_handler else asyncio.CancelledError) from None
