"""The lines of a JSON-lines file, and what one of them holds."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from artkit.errors import ConfigurationError

__all__ = ["decode", "parse_line", "read_lines"]

_HINT = "each line is one JSON object, in UTF-8"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


def read_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every line that is not blank, with the words that say where it stands.

    One line at a time is in memory. A file that gzip packed is known by its first bytes, whatever its name.

    Raises:
        ConfigurationError: If the file can't be read, or is cut off or damaged where gzip can tell.
    """
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                # Editors leave a byte order mark, and files that were put together have it in the middle.
                if text := line.removeprefix(_BYTE_ORDER_MARK).strip():
                    yield f"{path}, line {number}", text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = f"{path} is damaged after line {number}: {error}"
        raise ConfigurationError(msg, "fetch or pack the file again") from error
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}", "check the path") from error


def parse_line(where: str, line: bytes) -> Any:
    """Return the value of one line, as `decode` reads it.

    Raises:
        ConfigurationError: If the line is no JSON; the message says where in the line.
    """
    try:
        value = decode(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        msg = f"{where}: no JSON: {error.msg} at column {error.colno}"
        raise ConfigurationError(msg, _HINT) from error
    except UnicodeEncodeError as error:
        msg = f"{where}: no JSON: {error.object[error.start]!r} is half of a surrogate pair, and no letter"
        raise ConfigurationError(msg, _HINT) from error
    except ValueError as error:
        raise ConfigurationError(f"{where}: no JSON: {error}", _HINT) from error
    except RecursionError as error:
        raise ConfigurationError(f"{where}: no JSON: it is nested too deep", _HINT) from error
    return value


def decode(text: str) -> Any:
    """Return what JSON text holds.

    Whole numbers of any size stay exact. What JSON does not know is refused, although Python would write and read it:
    NaN, Infinity, half of a surrogate pair; so is a number too large for a float, and a key that comes twice.

    Raises:
        ValueError: If the text is no JSON.
        RecursionError: If it is nested too deep.
    """
    value = _DECODER.decode(text)
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
    return cast("BinaryIO", gzip.open(path, "rb")) if is_packed else path.open("rb")


def _constant(name: str) -> float:
    msg = f"{name} is no JSON value; write null where there is none"
    raise ValueError(msg)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        msg = f"{text} is too large for a float"
        raise ValueError(msg)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        msg = f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice"
        raise ValueError(msg)
    return result


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float, object_pairs_hook=_object)
