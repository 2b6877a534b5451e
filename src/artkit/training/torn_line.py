"""The last line of a file that is written line by line, after a death."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import BinaryIO

__all__ = ["mend_last_line"]


def mend_last_line(path: Path) -> None:
    """End a last line without its end where it is a whole row, and else cut it off: nothing may grow onto it."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        start = _start_of_last_line(file, size)
        if start == size:
            return
        file.seek(start)
        if _is_row(file.read()):
            file.write(b"\n")
        else:
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())


def _start_of_last_line(file: BinaryIO, size: int) -> int:
    """Return where what stands behind the last line end begins."""
    end = size
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _is_row(text: bytes) -> bool:
    # Only an object shows that it is whole: half of the number 12 is a number too.
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
