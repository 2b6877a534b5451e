"""The lines of a recording, read one by one: a long recording need not fit into memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["FORMAT", "read_lines", "read_rows", "refusing"]

FORMAT = 1

_BEGINNING = b'{"format": '


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a recording in order. A last line that was cut off is left out.

    Raises:
        ConfigurationError: A line that is not the last is no JSON, a later version of artkit wrote the recording, or it
            is none.
        OSError: It cannot be read.
    """
    for row, _ in read_lines(path):
        yield row


def read_lines(path: str | Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each row of a recording and the byte of the file at which its line ends. What follows the last was cut off.

    Raises:
        ConfigurationError: As for `read_rows`.
        OSError: As for `read_rows`.
    """
    end, is_first = 0, True
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            end += len(line)
            if not line.strip():
                continue
            try:
                # Not left to `json` to guess: zeros, which a machine that lost its power leaves, would pass for UTF-32.
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                if file.read(1) or (is_first and not _is_begun(line)):
                    raise ConfigurationError(
                        f"{path} is no recording: line {number} is no JSON: {error}", "give a file that artkit recorded"
                    ) from error
                return
            _check(row, path, number)
            is_first = False
            yield row, end


@contextlib.contextmanager
def refusing(path: str | Path) -> Iterator[None]:
    """Inside, a row of `path` that has not what it should have is told as such.

    Raises:
        ConfigurationError: In place of what was raised over it.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{path} is no recording: a line cannot be understood ({type(error).__name__}: {error})",
            "give a file that artkit recorded",
        ) from error


def _is_begun(line: bytes) -> bool:
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _check(row: Any, path: str | Path, number: int) -> None:
    is_row = isinstance(row, dict) and isinstance(row.get("format"), int)
    if is_row and row["format"] > FORMAT:
        raise ConfigurationError(
            f"{path} is a recording of format {row['format']}, and this artkit reads up to {FORMAT}",
            "read it with the version of artkit that wrote it",
        )
    if not is_row or not ("group" in row or {"place", "episode"} <= row.keys()):
        raise ConfigurationError(
            f"{path} is no recording: line {number} reads {str(row)[:60]!r}", "give a file that artkit recorded"
        )
