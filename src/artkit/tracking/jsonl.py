"""The JSONL tracker: every event as a line that a program can read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import IO, TYPE_CHECKING

from artkit.secrets import scrub_values

if TYPE_CHECKING:
    from artkit.tracking.events import TrackingEvent

__all__ = ["JsonlTracker"]


class JsonlTracker:
    """Appends each event to a file as one JSON object: its class under `event`, then its fields.

    Each line is in the file when `handle` returns, so a killed run loses at most the line it was writing, and a later
    session in the same file starts on a line of its own: a reader skips what is no whole line. What JSON cannot hold
    becomes text: `NaN` is `"nan"`, an object its `repr`; an event is never lost to a value in it.

    Args:
        path: The file; it and its directories are made on the first event, the file readable by its owner alone.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def handle(self, event: TrackingEvent) -> None:
        """Append one event.

        Raises:
            OSError: The file cannot be written.
        """
        record: dict[str, object] = {"event": type(event).__name__}
        record |= {field.name: _plain(getattr(event, field.name)) for field in fields(event)}
        line = json.dumps(scrub_values(record), ensure_ascii=True)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "ab+") as file:
            if _ends_in_half_a_line(file):
                line = "\n" + line
            file.write((line + "\n").encode())


def _ends_in_half_a_line(file: IO[bytes]) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def _plain(value: object) -> object:
    match value:
        case bool() | int() | str() | None:
            return value
        case Real():
            number = float(value)
            return number if math.isfinite(number) else str(number)
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return repr(value)
