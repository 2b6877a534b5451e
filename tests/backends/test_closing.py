"""A backend is closed on every exit."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from artkit.backends import closing_backend


class Closable:
    """Counts how often it was closed."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.closed = 0
        self._error = error

    async def close(self) -> None:
        self.closed += 1
        if self._error:
            raise self._error


class Slow:
    """Is closed once it is let go."""

    def __init__(self) -> None:
        self.is_closing, self.let_go = asyncio.Event(), asyncio.Event()
        self.is_closed = False

    async def close(self) -> None:
        self.is_closing.set()
        await self.let_go.wait()
        self.is_closed = True


def no_warning(text: str) -> None:
    raise AssertionError(text)


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_ends_the_block_comes_through_a_closed_backend(error: BaseException) -> None:
    """Errors, Ctrl-C and cancellation alike."""
    backend = Closable()

    with pytest.raises(type(error)):
        async with closing_backend(backend, warn=no_warning):
            raise error

    assert backend.closed == 1


async def test_an_error_in_closing_after_success_is_a_warning() -> None:
    """What the block came to must not be lost over it, and somebody should know that something was left behind."""
    warnings: list[str] = []

    async with closing_backend(Closable(OSError("stuck")), warn=warnings.append):
        pass

    assert warnings == ["closing Closable failed: OSError('stuck')"]


async def test_an_error_in_closing_after_an_error_is_a_note_on_it() -> None:
    """The first one is the cause."""
    with pytest.raises(ValueError, match="first") as caught:
        async with closing_backend(Closable(OSError("stuck")), warn=no_warning):
            raise ValueError("first")

    assert caught.value.__notes__ == ["closing Closable failed too: OSError('stuck')"]


@pytest.mark.parametrize("error", [None, ValueError("first"), asyncio.CancelledError()])
async def test_cancelling_while_it_closes_waits_for_the_end_of_it(error: BaseException | None) -> None:
    """Left half-way it may keep a GPU; and the cancellation is not swallowed."""
    backend = Slow()

    async def block() -> None:
        async with closing_backend(backend, warn=no_warning):
            if error:
                raise error

    task = asyncio.create_task(block())
    await backend.is_closing.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    was_done = task.done()
    backend.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (was_done, backend.is_closed) == (False, True)


async def test_a_backend_that_cancels_its_own_closing_is_a_warning() -> None:
    """Nobody asked for the task that called it to end."""
    warnings: list[str] = []

    async with closing_backend(Closable(asyncio.CancelledError()), warn=warnings.append):
        pass

    assert len(warnings) == 1


TWICE = """
import asyncio
from artkit.backends import closing_backend

class Slow:
    calls = 0
    async def close(self):
        self.calls += 1
        print("closing", flush=True)
        if self.calls == 1:
            await asyncio.sleep(60)
        print("closed", flush=True)

async def main():
    async with closing_backend(Slow(), warn=print):
        print("open", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.timeout(120)
def test_a_second_ctrl_c_closes_again_what_it_cut_short() -> None:
    """It cancels every task there is, the closing too; a third one ends the process."""
    with subprocess.Popen([sys.executable, "-c", TWICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        for word in (b"open\n", b"closing\n"):
            assert process.stdout.readline() == word
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)

    assert output == b"closing\nclosed\n"
    assert errors.decode().rstrip().endswith("KeyboardInterrupt")
