"""A backend is closed on every exit."""

from __future__ import annotations

import asyncio

import pytest

from artkit.backends import closing_backend


class Closable:
    """Counts how often it was closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self._error = error

    async def close(self) -> None:
        self.closed += 1
        if self._error:
            raise self._error


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_ends_the_block_comes_through_a_closed_backend(error: BaseException) -> None:
    """Errors, Ctrl-C and cancellation alike."""
    backend = Closable()

    with pytest.raises(type(error)):
        async with closing_backend(backend):
            raise error

    assert backend.closed == 1


async def test_an_error_in_closing_after_success_is_raised() -> None:
    """Nothing else would say that something was left behind."""
    with pytest.raises(OSError, match="stuck"):
        async with closing_backend(Closable(OSError("stuck"))):
            pass
