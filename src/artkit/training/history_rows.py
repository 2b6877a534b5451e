"""Rows of ART's history.jsonl: whether one is there, and what those of a step say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["has_row", "rows_of", "size_of"]


def has_row(path: Path, *, since_byte: int, step: int, key: str, value: float | None = None) -> bool:
    """Whether a row of `step` that has `key` was written after `since_byte`.

    Args:
        path: The history; it may not exist.
        since_byte: Where to begin: what stands before belongs to earlier runs.
        step: The step of the row.
        key: A metric that the row has.
        value: What the metric is, or None for any value.
    """
    return any(
        row.get("step") == step and key in row and (value is None or row[key] == value)
        for row in _rows(path, since_byte)
    )


def rows_of(path: Path, *, since_byte: int, step: int) -> dict[str, Any]:
    """Return the rows of `step` that were written after `since_byte`, joined; empty where there is none."""
    joined: dict[str, Any] = {}
    for row in _rows(path, since_byte):
        if row.get("step") == step:
            joined |= row
    return joined


def size_of(path: Path) -> int:
    """Return the length of the file in bytes; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _rows(path: Path, since_byte: int) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(since_byte)
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # half a line, which another program left
            if isinstance(row, dict):
                yield row
