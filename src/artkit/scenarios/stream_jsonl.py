"""Scenarios from a JSON-lines file of any size, one at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.jsonl_lines import parse_line, read_lines
from artkit.scenarios.loaded import BadRows, OnBadLine, read
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader
from artkit.scenarios.scenario import Scenario

__all__ = ["JsonlStream", "stream_jsonl"]

ScenarioT = TypeVar("ScenarioT", bound=Scenario)


class JsonlStream(Generic[ScenarioT]):
    """An iterator over the scenarios of a file, in its order; made by `stream_jsonl`.

    Attributes:
        path: The file.
        position: How many scenarios were handed out, those passed over by `seek` included.
        skipped: Lines that were no scenario on the way to `position`; see `on_bad_line`.
    """

    def __init__(
        self,
        path: Path,
        reader: RowReader[ScenarioT],
        *,
        start: int = 0,
        limit: int | None = None,
        on_bad_line: OnBadLine = "raise",
    ) -> None:
        self.path = path
        self.position = 0
        self._reader = reader
        self._slice = (start, None if limit is None else start + limit)
        self._on_bad_line: OnBadLine = on_bad_line
        self._bad_rows = BadRows(on_bad_line)
        self._scenarios = self._read_from(0)

    def __repr__(self) -> str:
        return f"JsonlStream({str(self.path)!r}, position={self.position})"

    @property
    def skipped(self) -> int:
        return self._bad_rows.count

    def __iter__(self) -> Iterator[ScenarioT]:
        return self

    def __next__(self) -> ScenarioT:
        try:
            scenario = next(self._scenarios)
        except ConfigurationError:
            self.seek(self.position)  # else the next call would say that the file is at its end
            raise
        self.position += 1
        return scenario

    def seek(self, position: int) -> None:
        """Make scenario number `position`, from 0, the next one; past the last one nothing is left.

        The file is read again from its beginning. Lines on the way are only counted, unless bad ones are skipped: then
        it takes as long as reading did.
        """
        check_slice(position, None)
        self.close()
        self._bad_rows = BadRows(self._on_bad_line)
        self._scenarios = self._read_from(position)
        self.position = position

    def close(self) -> None:
        """Close the file, and hand out nothing more; `seek` opens it again. Reading to the end closes it too."""
        self._scenarios.close()

    def _read_from(self, position: int) -> Generator[ScenarioT]:
        rows: Iterator[tuple[str, Any]] = islice(read_lines(self.path), *self._slice)
        passed = 0
        if not self._bad_rows.is_skipping:
            rows, passed = islice(rows, position, None), position
        for _, scenario in islice(read(rows, self._reader, self._bad_rows), position - passed, None):
            yield scenario


@overload
def stream_jsonl(
    path: str | Path,
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
) -> JsonlStream[PromptScenario]: ...
@overload
def stream_jsonl(
    path: str | Path,
    scenario_type: type[ScenarioT],
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
) -> JsonlStream[ScenarioT]: ...
def stream_jsonl(
    path: str | Path,
    scenario_type: type[Scenario] = PromptScenario,
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
) -> JsonlStream[Any]:
    """Read the scenarios of a JSON-lines file one at a time, in the order of the file, in constant memory.

    The result is an iterator with `seek`, so it is an open-ended source that a run resumes from:
    `Trainer(train=stream_jsonl("tasks.jsonl"), settings=TrainerSettings(max_steps=500))`. The arguments are those of
    `load_jsonl`. Whether an id comes twice is not looked at: remembering every id takes memory for each.

    Raises:
        ConfigurationError: At once, if the file is not there or an argument can't work; while reading, as by
            `load_jsonl`.
    """
    check_slice(start, limit)
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(f"{path} is no file", "check the path")
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, parse=parse_line)
    return JsonlStream(path, reader, start=start, limit=limit, on_bad_line=on_bad_line)
