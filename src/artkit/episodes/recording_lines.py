"""The lines of a recording, read one by one: a long recording need not fit into memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["FORMAT", "read_rows"]

FORMAT = 1


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a recording in order. A last line that was cut off is left out.

    Raises:
        ConfigurationError: A later version of artkit wrote the recording, or it is none.
        ValueError: A line that is not the last is no JSON.
    """
    with Path(path).open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                if file.read(1):
                    raise
                return
            if not isinstance(row, dict) or "format" not in row:
                raise ConfigurationError(
                    f"{path} is no recording: a line reads {line[:60]!r}", "give a file that artkit recorded"
                )
            if row["format"] > FORMAT:
                raise ConfigurationError(
                    f"{path} is a recording of format {row['format']}, and this artkit reads up to {FORMAT}",
                    "read it with the version of artkit that wrote it",
                )
            yield row
