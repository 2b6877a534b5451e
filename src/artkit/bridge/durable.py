"""Files that a death, of the process or of the machine, cannot leave half written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["replace_file", "sync_to_disk"]


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when the block ends: all or nothing, readable by the user alone.

    So is its directory, where it is made here.

    It is written beside its place, flushed to the disk and renamed, and the directory is flushed too, without which a
    machine that loses its power may forget the new name.

    Raises:
        OSError: The directory cannot be written, or the disk is full. The old file is then untouched.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Return once what a file holds, or which names a directory holds, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
