"""Scenarios one at a time, from rows that can be read again from their beginning."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any, Generic

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.loaded import BadRows, OnBadLine, read
from artkit.scenarios.row_reader import RowReader, ScenarioT

__all__ = ["RowStream"]


class RowStream(ABC, Generic[ScenarioT]):
    """An iterator over the scenarios of rows, in their order, that a run resumes from.

    Attributes:
        position: How many scenarios were handed out, those passed over by `seek` included.
        skipped: Rows that were no scenario on the way to `position`; see `on_bad_line`.
    """

    def __init__(
        self,
        reader: RowReader[ScenarioT],
        *,
        start: int = 0,
        limit: int | None = None,
        on_bad_line: OnBadLine = "raise",
    ) -> None:
        self.position: int
        self._scenarios: Iterator[tuple[str, Any, ScenarioT]]
        self._reader = reader
        self._start, self._limit = start, limit
        self._on_bad_line: OnBadLine = on_bad_line
        self._raw: Any = None
        self._rows = self._read_rows()
        self.seek(0)

    @abstractmethod
    def _open(self, start: int) -> Iterator[tuple[str, Any]]:
        """Return the rows from `start` on, from the beginning at each call, with the words that say where they are."""

    @abstractmethod
    def _content(self, raw: Any) -> bytes:
        """Return what tells a row from others, equal in every process."""

    @property
    def skipped(self) -> int:
        return self._bad_rows.count

    @property
    def fingerprint(self) -> str:
        """The SHA-256, as 64 hex digits, of what was handed out: the rows, and what they are read as.

        A run that resumes knows by it that the rows begin as they did, wherever they lie now; more may follow.
        """
        self._catch_up()
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[ScenarioT]:
        return self

    def __next__(self) -> ScenarioT:
        try:
            if self._behind:
                self._catch_up()
            *_, scenario = next(self._scenarios)
            self._digest.update(self._content(self._raw))
        except ConfigurationError:
            self.seek(self.position)  # else the next call would say that the rows are at their end
            raise
        self.position += 1
        return scenario

    def seek(self, position: int) -> None:
        """Make scenario number `position`, from 0, the next one; past the last one nothing is left.

        The rows are read again from their beginning, once that is needed. Those on the way are not looked into, unless
        bad ones are skipped: then it takes as long as reading did.
        """
        check_slice(position, None)
        self.close()
        self._bad_rows = BadRows(self._on_bad_line)
        self._digest = hashlib.sha256(f"{self._reader.scenario_type.__qualname__}:{self._reader.keys}".encode())
        self._rows = self._read_rows()
        self._scenarios = read(self._rows, self._reader, self._bad_rows)
        self.position = self._behind = position

    def close(self) -> None:
        """Close a file, and hand out nothing more; `seek` opens it again. Reading to the end closes it too."""
        self._rows.close()

    def _catch_up(self) -> None:
        """Read what `seek` passes over."""
        passed: Iterator[Any] = self._scenarios if self._bad_rows.is_skipping else self._rows
        for _ in islice(passed, self._behind):
            self._digest.update(self._content(self._raw))
        self._behind = 0

    def _read_rows(self) -> Generator[tuple[str, Any]]:
        for where, raw in islice(self._open(self._start), self._limit):
            self._raw = raw
            yield where, raw
