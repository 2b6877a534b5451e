"""Signals, handled for a time."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import pytest

from artkit.transport import handled_signal, one_cleanup


async def until(condition: Any) -> None:
    """Give way until something has happened; the test's own time-out ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  # a fact of signals, which tell nobody
        await asyncio.sleep(0.001)


async def test_the_next_one_inside_is_told_when_the_first_has_left() -> None:
    """Two gathers side by side: Python's own handler came back with the end of one, in the middle of the other."""
    heard: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    first = handled_signal(signal.SIGTERM, lambda: heard.append("first"))
    second = handled_signal(signal.SIGTERM, lambda: heard.append("second"))
    entered = [first.__enter__(), second.__enter__()]

    signal.raise_signal(signal.SIGTERM)
    await until(lambda: len(heard) == 1)
    first.__exit__(None, None, None)
    signal.raise_signal(signal.SIGTERM)
    await until(lambda: len(heard) == 2)
    second.__exit__(None, None, None)

    assert (entered, heard) == ([before, before], ["first", "second"])
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_handler_that_the_program_sets_meanwhile_is_left_alone() -> None:
    """A notebook sets its own for each cell."""

    def own(number: int, frame: object) -> None: ...

    before = signal.getsignal(signal.SIGTERM)
    try:
        with handled_signal(signal.SIGTERM, lambda: None):
            signal.signal(signal.SIGTERM, own)
            with handled_signal(signal.SIGTERM, lambda: None) as found:
                pass
        left = signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert (found, left) == (None, own)


def test_ctrl_c_while_the_event_loop_stands_still_is_what_it_always_was() -> None:
    """Between two cells, or once the program has closed the loop under what ran there, nobody would ever be told."""
    loop = asyncio.new_event_loop()

    async def work() -> None:
        with handled_signal(signal.SIGINT, lambda: None):
            await asyncio.Event().wait()

    task = loop.create_task(work())
    loop.run_until_complete(asyncio.sleep(0))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    task.cancel()
    loop.run_until_complete(asyncio.wait({task}))
    loop.close()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_process_that_is_forked_off_can_be_ended() -> None:
    """Graders run code in one and call `terminate()` after a while: it took no notice, and they hung."""
    has_begun, begins = multiprocessing.Pipe(duplex=False)

    def run_code() -> None:
        begins.send(True)
        time.sleep(60)

    child = multiprocessing.get_context("fork").Process(target=run_code)
    with handled_signal(signal.SIGTERM, lambda: None):
        # As a reward's function does it, which runs in a thread.
        starting = threading.Thread(target=child.start)
        starting.start()
        starting.join()
        has_begun.recv()
        child.terminate()
        child.join(5)
    code = child.exitcode
    child.kill()
    child.join()

    assert code == -signal.SIGTERM


def test_a_second_ctrl_c_cuts_none_of_two_cleanups_short(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the one that heard of it first is through with its own."""
    cleaned: list[str] = []

    async def work(name: str, seconds: float) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(seconds)
            cleaned.append(name)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        works = [asyncio.create_task(one_cleanup(lambda one=one: work(*one))) for one in (("a", 0.0), ("b", 0.4))]
        loop.call_later(0.05, signal.raise_signal, signal.SIGINT)
        loop.call_later(0.25, signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            for one in works:
                one.cancel()
            await asyncio.wait(works)

    # Not `asyncio.run`, which libraries replace with one that leaves the loop open.
    with (
        caplog.at_level(logging.WARNING, logger="artkit"),
        asyncio.Runner() as runner,
        pytest.raises(KeyboardInterrupt),
    ):
        runner.run(main())

    assert cleaned == ["a", "b"]
    assert caplog.messages == ["clean-up is running: what is open is being closed, and then this ends"]
