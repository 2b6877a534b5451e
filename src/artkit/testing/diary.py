"""What a backend was asked to do, in order; on disk too, so that it outlives a killed process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Diary", "DiaryEntry", "read_diary"]


@dataclass(frozen=True, slots=True)
class DiaryEntry:
    """One call.

    Attributes:
        call: What was asked for: "register", "prepare", "get_step", "train", "train_sft", "delete_checkpoints" or
            "close".
        arguments: With what, as JSON data.
    """

    call: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Diary:
    """A list of entries that is also appended to a file, each entry before the call does anything.

    Args:
        path: The file of JSON lines; None keeps the entries in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries: list[DiaryEntry] = []

    @property
    def entries(self) -> tuple[DiaryEntry, ...]:
        """The entries of this process, in order."""
        return tuple(self._entries)

    def write(self, call: str, arguments: Mapping[str, Any]) -> None:
        entry = DiaryEntry(call, arguments)
        self._entries.append(entry)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One write of a whole line: a process killed in between leaves the line out, or cut off at the very end.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry)) + "\n")


def read_diary(path: Path | str) -> tuple[DiaryEntry, ...]:
    """Return the entries of every process that kept its diary in `path`; a cut-off line is left out."""
    entries = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            entries.append(DiaryEntry(**json.loads(line)))
        except ValueError:
            continue
    return tuple(entries)
