"""The metric history: a tolerant reader of ART's `history.jsonl`."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic_core import from_json

__all__ = ["MetricHistory"]

_NOT_METRICS = frozenset({"step", "training_step", "recorded_at"})
_MAX_STEP = 2**63 - 1


class MetricHistory:
    """What was logged at which step. Only finite numbers count: NaN and infinity are no evidence.

    Where a step has several rows with a metric, the last one in the file holds: a run that went back to an earlier
    checkpoint logs the same steps again, and the last row tells of the weights that are there now.

    >>> history = MetricHistory.from_values({"val/reward": {1: 0.5, 2: 0.75}})
    >>> history.values("val/reward")
    {1: 0.5, 2: 0.75}
    >>> history.values("val/rewards"), history.metrics()
    ({}, frozenset({'val/reward'}))

    Attributes:
        skipped_lines: Lines that held no row, such as the half line of a killed process.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._known = set(_NOT_METRICS)
        self.skipped_lines = 0
        self._read_bytes = 0

    @classmethod
    def read(cls, path: str | Path, *, metrics: Collection[str] | None = None) -> Self:
        """Read a `history.jsonl`, row by row. A missing file is an empty history.

        Lines that hold no row are skipped and counted. Where a killed process left a line without its end and the next
        one wrote behind it, the whole rows in it are read.

        Args:
            path: The file, as ART's `model.log` writes it.
            metrics: Keep the values of these only, 16 bytes each; None keeps all. The names of all are kept.

        Raises:
            OSError: If the file is there and can't be read.
        """
        history = cls()
        history.read_on(path, metrics=metrics)
        return history

    def read_on(self, path: str | Path, *, metrics: Collection[str] | None = None) -> None:
        """Read what was appended to `path` since the last call; the first call reads all of it.

        So that asking after every step stays cheap however long the run. Arguments and errors are those of `read`.
        """
        try:
            file = Path(path).open("rb")  # noqa: SIM115  # only a missing file is empty, not one that fails later
        except FileNotFoundError:
            return
        with file:
            file.seek(self._read_bytes)
            for line in file:
                whole = _parse(line)
                rows = _pieces(line) if whole is None else [whole]
                if not rows and line.strip():
                    self.skipped_lines += 1
                for row in rows:
                    self._add(row, metrics)
                if line.endswith(b"\n"):  # else it may still grow: it is read again
                    self._read_bytes += len(line)

    @classmethod
    def from_values(cls, values: Mapping[str, Mapping[int, float]]) -> Self:
        """Make a history of `{metric: {step: value}}`."""
        history = cls()
        for metric, by_step in values.items():
            for step, value in by_step.items():
                history._add({"step": step, metric: value}, None)
        return history

    def metrics(self) -> frozenset[str]:
        """Return the names of all metrics that were logged with a finite value at least once."""
        return frozenset(self._known - _NOT_METRICS)

    def values(self, metric: str, *, at: Collection[int] | None = None) -> dict[int, float]:
        """Return the value of `metric` at each step that has one, steps ascending.

        Args:
            metric: The metric as the file names it, split first.
            at: Look at these steps only; None looks at all.
        """
        column = self._columns.get(metric)
        return {} if column is None else column.values(at)

    def row_at(self, step: int) -> dict[str, float]:
        """Return the value of every metric that has one at `step`."""
        by_metric = {metric: column.values({step}) for metric, column in sorted(self._columns.items())}
        return {metric: values[step] for metric, values in by_metric.items() if values}

    def __repr__(self) -> str:
        return f"MetricHistory({len(self.metrics())} metrics)"

    def _add(self, row: Mapping[str, Any], metrics: Collection[str] | None) -> None:
        step = row.get("step", row.get("training_step"))
        if isinstance(step, float) and step.is_integer():
            step = int(step)
        if type(step) is not int or not 0 <= step <= _MAX_STEP:
            self.skipped_lines += 1
            return
        # A row of known names has nothing to tell but the values that are wanted.
        names = row if metrics is None or not row.keys() <= self._known else metrics
        for name in names:
            value = row.get(name)
            if name not in _NOT_METRICS and isinstance(value, int | float) and _is_finite(value):
                self._known.add(name)
                if metrics is None or name in metrics:
                    column = self._columns.get(name)
                    if column is None:
                        column = self._columns[name] = _Column()
                    column.steps.append(step)
                    column.numbers.append(value)


class _Column:
    """The values of one metric in the order of the file, without an object for each."""

    __slots__ = ("numbers", "steps")

    def __init__(self) -> None:
        self.steps = array("q")
        self.numbers = array("d")

    def values(self, at: Collection[int] | None) -> dict[int, float]:
        rows = zip(self.steps, self.numbers, strict=True)
        # The last row of a step stays in the dict.
        by_step = dict(rows) if at is None else {step: value for step, value in rows if step in at}
        return {step: by_step[step] for step in sorted(by_step)}


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _pieces(line: bytes) -> list[dict[str, Any]]:
    """Return the rows of a line that is not one row: what a killed process began, and what was written behind it."""
    # Rows are flat, so a brace before a quote begins one.
    rows = map(_parse, re.split(rb'(?=\{")', line))
    return [row for row in rows if row is not None]


def _parse(text: bytes) -> dict[str, Any] | None:
    """Return the row that `text` is, or None."""
    try:
        row = from_json(text)
    except ValueError:
        try:
            # Takes what `json.dumps` writes and from_json does not, such as half a surrogate pair.
            row = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return row if isinstance(row, dict) else None
