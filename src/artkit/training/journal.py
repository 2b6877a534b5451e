"""The journal: what a run did, in a file of artkit's own, append-only and safe on disk line by line."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artkit.bridge import sync_to_disk
from artkit.errors import ResumeError
from artkit.scenarios import Cursor
from artkit.secrets import scrub_values
from artkit.training.torn_line import mend_last_line

__all__ = ["Batch", "Began", "Emptied", "Ended", "Entry", "Intended", "Journal", "Logged", "Trained", "Validated"]

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the journal.

    Attributes:
        elapsed_s: Seconds the run had taken, earlier sessions included.
    """

    elapsed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Began(Entry):
    """A new run began, on a model that stood at `step`, with what `fingerprint` says.

    Attributes:
        format: Of the journal, so that a later version of artkit can be told from damage.
    """

    step: int
    fingerprint: Mapping[str, Any]
    history_bytes: int = 0
    format: int = _FORMAT


@dataclass(frozen=True, kw_only=True)
class Batch(Entry):
    """A batch is gathered, scored and recorded.

    Attributes:
        index: Its number in the run, from 0.
        epoch: Its epoch, from 0.
        is_epoch_end: Whether it is the last of its epoch.
        cursor: Where the next batch starts.
        metrics: What became of its rollouts and groups.
        kept: Groups that it left over for the next one; they are in a recording of their own.
    """

    index: int
    epoch: int
    is_epoch_end: bool
    cursor: Cursor
    metrics: Mapping[str, float] = field(default_factory=dict)
    kept: int = 0


@dataclass(frozen=True, kw_only=True)
class Intended(Batch):
    """The batch is about to be trained on; its counts include those of the empty batches before it."""


@dataclass(frozen=True, kw_only=True)
class Emptied(Batch):
    """The batch held nothing to train on; the cursor goes on and the counts go to the next row."""


@dataclass(frozen=True, kw_only=True)
class Trained(Entry):
    """The batch was trained on, and the backend stands at `step`.

    Attributes:
        index: The number of the batch in the run, from 0.
        step: The backend's step after it.
        metrics: What the backend reported, as far as it can be logged.
        not_finite: Which losses or gradients were NaN or infinite, in words.
    """

    index: int
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    not_finite: str | None = None


@dataclass(frozen=True, kw_only=True)
class Logged(Entry):
    """The row of the step is in the history."""

    index: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Validated(Entry):
    """The row of a validation is in the history.

    Attributes:
        name: Which validation.
        step: The step that was validated.
        mean: The mean reward; None where too little could be scored to rank by.
        scores: The mean reward of each scenario that could be scored, by its id: what later ones are compared with.
        is_first: Whether it is the set that is logged as `val/reward`.
    """

    name: str
    step: int
    is_first: bool = False
    mean: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ended(Entry):
    """A session of the run ended by itself, and not by an error, a signal or a death."""

    reason: str


_KINDS: dict[str, type[Entry]] = {
    kind.__name__.lower(): kind for kind in (Began, Intended, Trained, Logged, Emptied, Validated, Ended)
}


class Journal:
    """The journal file of one run.

    Args:
        path: The file; made, with its directory, at the first entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Entry]:
        """Return all entries. A last line that was cut off is dropped from the file: what it told did not happen.

        Raises:
            ResumeError: A later version of artkit wrote it, or a line in the middle cannot be read, so what the run did
                is not known.
        """
        if not self.path.exists():
            return []
        mend_last_line(self.path)
        return list(self._parse(self.path.read_bytes().splitlines()))

    def append(self, entry: Entry) -> None:
        """Write `entry`; when this returns, it is on the disk."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not self.path.exists()
        row = {"kind": type(entry).__name__.lower(), **dataclasses.asdict(entry)}
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(json.dumps(scrub_values(row)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_to_disk(self.path.parent)

    def set_aside(self, recordings: Path) -> Path | None:
        """Rename the journal of an earlier run and its directory of `recordings`, so that a new one begins.

        Both get the same number. The journal goes last: a death before that leaves it to be done again.

        Returns:
            The new place of the journal; None where there was none.
        """
        if not self.path.exists() and not recordings.exists():
            return None
        number = 1
        while _numbered(self.path, number).exists() or (recordings.exists() and _numbered(recordings, number).exists()):
            number += 1
        if recordings.exists():
            recordings.rename(_numbered(recordings, number))
        return self.path.rename(_numbered(self.path, number)) if self.path.exists() else None

    def _parse(self, lines: list[bytes]) -> Iterator[Entry]:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if row.get("format", _FORMAT) > _FORMAT:
                    raise ResumeError(
                        f"{self.path} is a journal of format {row['format']}, and this artkit reads up to {_FORMAT}",
                        'resume with the version of artkit that wrote it, or begin a new run with resume="never"',
                    )
                kind = _KINDS[row.pop("kind")]
                if "cursor" in row:
                    row["cursor"] = Cursor.from_dict(row["cursor"])
                yield kind(**row)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ResumeError(
                    f"line {number} of {self.path} is no entry of a journal: {line[:80]!r}",
                    'restore the file, or begin a new run on these weights with resume="never"',
                ) from error


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number}{path.suffix}")
