"""Rows of ART's history.jsonl: whether one is there, and what the last one says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["has_row", "last_row"]

_TAIL_BYTES = 1 << 18


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


def last_row(path: Path) -> dict[str, Any]:
    """Return the last whole row; empty where there is none."""
    size = path.stat().st_size if path.exists() else 0
    rows = list(_rows(path, max(0, size - _TAIL_BYTES)))
    return rows[-1] if rows else {}


def _rows(path: Path, since_byte: int) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(since_byte)
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # half a line, at the seam or at the end
            if isinstance(row, dict):
                yield row
