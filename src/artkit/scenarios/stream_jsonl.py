"""Scenarios from a JSON-lines file of any size, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.jsonl_lines import parse_line, read_lines
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader, ScenarioT
from artkit.scenarios.row_stream import RowStream

if TYPE_CHECKING:
    from artkit.scenarios.loaded import OnBadLine

__all__ = ["JsonlStream", "stream_jsonl"]


class JsonlStream(RowStream[ScenarioT]):
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
        super().__init__(reader, start=start, limit=limit, on_bad_line=on_bad_line)

    def __repr__(self) -> str:
        return f"JsonlStream({str(self.path)!r}, position={self.position})"

    def _open(self, start: int) -> Iterator[tuple[str, bytes]]:
        return islice(read_lines(self.path), start, None)

    def _content(self, raw: Any) -> bytes:
        return bytes(raw) + b"\n"


def stream_jsonl(
    path: str | Path,
    scenario_type: type[ScenarioT] = PromptScenario,  # type: ignore[assignment]  # also the default of ScenarioT
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
) -> JsonlStream[ScenarioT]:
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
