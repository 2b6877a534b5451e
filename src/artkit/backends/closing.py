"""Closing a backend on every exit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["closing_backend"]


@asynccontextmanager
async def closing_backend(backend: Any) -> AsyncIterator[None]:
    """Close `backend` at the end of the block: on success, error, cancellation and Ctrl-C.

    After an error it is that error which is raised; a failure to close is added to it as a note.
    """
    try:
        yield
    except BaseException as error:
        try:
            await backend.close()
        except Exception as failure:  # noqa: BLE001  # any backend's; the first error is the one to raise
            error.add_note(f"closing {type(backend).__name__} failed too: {failure!r}")
        raise
    await backend.close()
