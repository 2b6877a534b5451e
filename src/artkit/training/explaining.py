"""What a user is told when a run ends before its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

from artkit.tracking import Warned

if TYPE_CHECKING:
    from artkit.training.broadcast import Broadcast
    from artkit.training.parts import Parts

__all__ = ["disk_errors_explained", "interruption_told"]

_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM}


@contextlib.contextmanager
def interruption_told(parts: Parts, tell: Broadcast) -> Iterator[None]:
    """Say that a run which is cancelled, by Ctrl-C for one, can be gone on with."""
    try:
        yield
    except asyncio.CancelledError:
        tell(
            Warned(
                text=f"interrupted; start again and it goes on with the step under way, what was played of it is in "
                f"{parts.own_dir / 'recordings'}"
            )
        )
        raise


@contextlib.contextmanager
def disk_errors_explained(parts: Parts) -> Iterator[None]:
    """Say where the files are when the disk is what failed."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            error.add_note(
                f"the run keeps its files in {parts.own_dir.parent}; make room, or let it be written, and start again: "
                "it resumes"
            )
        raise
