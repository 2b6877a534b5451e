"""The metric history: a tolerant reader of ART's `history.jsonl`."""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from artkit.checkpoints.history_lines import Row, lines_of, may_hold, rows_of
from artkit.checkpoints.narrow_rows import NarrowRows

__all__ = ["MetricHistory"]

_NOT_METRICS = frozenset({"step", "training_step", "recorded_at"})
_MAX_STEP = 2**63 - 1
_MAX = sys.float_info.max


class MetricHistory:
    """What was logged at which step. Only finite numbers count: NaN and infinity are no evidence.

    Where a step has several rows with a metric, the last one in the file holds: a run that went back to an earlier
    checkpoint logs the same steps again, and the last row tells of the weights that are there now.

    >>> history = MetricHistory.from_values({"val/reward": {1: 0.5, 2: 0.75}})
    >>> history.values("val/reward")
    {1: 0.5, 2: 0.75}
    >>> history.values("val/rewards"), history.metrics()
    ({}, frozenset({'val/reward'}))

    """

    def __init__(self) -> None:
        self._skipped = 0
        self._skipped_unfinished = 0
        self._columns: dict[str, _Column] = {}
        self._names: set[str] = set()
        self._path: Path | None = None
        self._since_byte = 0
        self._read_bytes = 0
        # What is held of each line: the values of these metrics, or of all.
        self._held: frozenset[str] | None = None
        self._namer: _Namer | None = None
        self._narrow: tuple[frozenset[str], NarrowRows] | None = None

    @classmethod
    def read(cls, path: str | Path, *, metrics: Collection[str] | None = None, since_byte: int = 0) -> Self:
        """Read a `history.jsonl`. A missing file is an empty history.

        Lines that hold no row are skipped and counted. Where a killed process left a line without its end and the next
        one wrote behind it, the whole rows in it are read.

        Args:
            path: The file, as ART's `model.log` writes it.
            metrics: Hold the values of these only, 16 bytes each; None holds all. Lines without them are passed over
                unread, which is several times as fast. Whatever else is asked of the history, it answers by reading the
                file once more.
            since_byte: Where to begin: what stands before was written by earlier runs. A file that is shorter was begun
                anew, and is read from its start.

        Raises:
            OSError: If the file is there and can't be read.
        """
        history = cls()
        history.read_on(path, metrics=metrics, since_byte=since_byte)
        return history

    def read_on(self, path: str | Path, *, metrics: Collection[str] | None = None, since_byte: int = 0) -> None:
        """Read what was appended to `path` since the last call; the first call reads all of it.

        So that asking after every step stays cheap however long the run. Arguments and errors are those of `read`; the
        first call decides on `metrics` and `since_byte`.
        """
        if self._path is None:
            self._path = Path(path).absolute()
            self._held = None if metrics is None else _without_marks(frozenset(metrics))
            self._since_byte = self._read_bytes = since_byte
        self._read()

    @classmethod
    def from_values(cls, values: Mapping[str, Mapping[int, float]]) -> Self:
        """Make a history of `{metric: {step: value}}`."""
        history = cls()
        for metric, by_step in values.items():
            history._add_rows([{"step": step, metric: value} for step, value in by_step.items()])
        return history

    @property
    def skipped_lines(self) -> int:
        """How many lines held no row, such as the half line of a killed process, among those that were read."""
        return max(self._skipped, self._namer.skipped_lines if self._namer else 0)

    def metrics(self) -> frozenset[str]:
        """Return the names of all metrics that were logged with a finite value at least once."""
        if self._held is None or self._path is None:
            return frozenset(self._names)
        if self._namer is None:
            self._namer = _Namer()
        self._namer.read_on(self._path, metrics=(), since_byte=self._since_byte)
        return frozenset(self._names) | self._namer.names

    def values(self, metric: str, *, at: Collection[int] | None = None) -> dict[int, float]:
        """Return the value of `metric` at each step that has one, steps ascending.

        Args:
            metric: The metric as the file names it, split first.
            at: Look at these steps only; None looks at all.
        """
        column = self._column(metric)
        return {} if column is None else column.values(at)

    def row_at(self, step: int) -> dict[str, float]:
        """Return the value of every metric that has one at `step`."""
        if self._held is not None:
            self._held = None
            self._read(again=True)
        by_metric = {metric: column.values({step}) for metric, column in sorted(self._columns.items())}
        return {metric: values[step] for metric, values in by_metric.items() if values}

    def __contains__(self, metric: str) -> bool:
        """Whether `metric` was logged with a finite value at least once."""
        return self._column(metric) is not None

    def __repr__(self) -> str:
        where = "" if self._path is None else f", read from {str(self._path)!r}"
        return f"MetricHistory({', '.join(sorted(self._columns)) or 'no metrics'}{where})"

    def _column(self, metric: str) -> _Column | None:
        if self._held is not None and metric not in self._held:
            self._held = _without_marks(self._held | {metric})
            self._read(again=True)
        return self._columns.get(metric)

    def _read(self, *, again: bool = False) -> None:
        """Read the file from where the last reading ended, or all of it again."""
        if self._path is None:
            return
        try:
            file = self._path.open("rb")
        except FileNotFoundError:  # no other error: nothing logged and nothing readable are not the same
            return
        with file:
            is_another = os.fstat(file.fileno()).st_size < self._read_bytes
            if is_another:
                self._since_byte = 0
            if again or is_another:
                self._columns.clear()
                self._names.clear()
                self._skipped = self._skipped_unfinished = 0
                self._read_bytes = self._since_byte
            file.seek(self._read_bytes)
            self._skipped -= self._skipped_unfinished
            self._skipped_unfinished = 0
            for lines in lines_of(file):
                unfinished = lines.pop() if not lines[-1].endswith(b"\n") else b""
                self._add(lines)
                self._read_bytes += sum(map(len, lines))
                if unfinished:  # it may still grow: it is read again
                    before = self._skipped
                    self._add([unfinished])
                    self._skipped_unfinished = self._skipped - before

    def _add(self, lines: list[bytes]) -> None:
        wanted = self._held
        if wanted is not None:
            lines = may_hold(lines, wanted)
            if self._add_narrow(lines, wanted):
                return
        rows, empty = rows_of(lines)
        self._skipped += empty
        self._add_rows(rows, wanted)

    def _add_narrow(self, lines: list[bytes], wanted: frozenset[str]) -> bool:
        """Add the `wanted` metrics of lines that are all well-formed rows; return whether they are."""
        if self._narrow is None or self._narrow[0] != wanted:
            self._narrow = wanted, NarrowRows(wanted)
        columns = self._narrow[1].read(lines)
        if columns is None:
            return False
        steps, by_metric = columns
        if not _are_steps(steps):
            return False
        for name, numbers in by_metric.items():
            self._extend(name, steps, numbers)
        return True

    def _add_rows(self, rows: list[Row], wanted: frozenset[str] | None = None) -> None:
        steps: list[Any] = [row.get("step") for row in rows]
        if not _are_steps(steps):
            of_step = [(step, row) for row in rows if (step := _step_of(row)) is not None]
            self._skipped += len(rows) - len(of_step)
            steps, rows = [step for step, _ in of_step], [row for _, row in of_step]
        for name in set().union(*rows) - _NOT_METRICS if wanted is None else wanted:
            self._extend(name, steps, [row.get(name) for row in rows])

    def _extend(self, name: str, steps: list[int], numbers: list[Any]) -> None:
        """Add the value of a metric at each of `steps`, where it is a finite number."""
        # Nearly always all are; a sum that is finite is one of finite numbers.
        if set(map(type, numbers)) != {float} or not math.isfinite(sum(numbers)):
            found = [
                (step, number)
                for step, number in zip(steps, numbers, strict=True)
                if isinstance(number, int | float) and -_MAX <= number <= _MAX
            ]
            steps, numbers = [step for step, _ in found], [number for _, number in found]
        if numbers:
            self._names.add(name)
            if self._held is None or name in self._held:
                self._columns.setdefault(name, _Column()).extend(steps, numbers)


class _Namer(MetricHistory):
    """The names of all metrics and the values of none, so that naming them does not slow down what is held."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def _add(self, lines: list[bytes]) -> None:
        rows, empty = rows_of(lines)
        self._skipped += empty
        self._add_rows(rows)


class _Column:
    """The values of one metric in the order of the file, without an object for each."""

    __slots__ = ("_numbers", "_steps")

    def __init__(self) -> None:
        self._steps = array("q")
        self._numbers = array("d")

    def extend(self, steps: list[int], numbers: list[float]) -> None:
        self._steps.extend(steps)
        self._numbers.extend(numbers)

    def values(self, at: Collection[int] | None) -> dict[int, float]:
        rows = zip(self._steps, self._numbers, strict=True)
        # The last row of a step stays in the dict.
        by_step = dict(rows) if at is None else {step: value for step, value in rows if step in at}
        steps = sorted(by_step)
        return by_step if steps == list(by_step) else {step: by_step[step] for step in steps}


def _without_marks(metrics: frozenset[str]) -> frozenset[str] | None:
    """Return `metrics`, or None where one has the mark for bytes that are no text: only whole rows have those."""
    return None if any("\ufffd" in metric for metric in metrics) else metrics


def _are_steps(steps: list[Any]) -> bool:
    return set(map(type, steps)) <= {int} and (not steps or 0 <= min(steps) <= max(steps) <= _MAX_STEP)


def _step_of(row: Row) -> int | None:
    step = row.get("step")
    if step is None:
        step = row.get("training_step")
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    return step if type(step) is int and 0 <= step <= _MAX_STEP else None
