"""Scenarios from a dataset of any size, one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.content import content_digest
from artkit.scenarios.dataset_rows import one_split, read_rows
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader, ScenarioT
from artkit.scenarios.row_stream import RowStream

if TYPE_CHECKING:
    from artkit.scenarios.loaded import OnBadLine

__all__ = ["DatasetStream", "stream_dataset"]


class DatasetStream(RowStream[ScenarioT]):
    """An iterator over the scenarios of a dataset, in its order; made by `stream_dataset`.

    Attributes:
        dataset: What the rows come from.
        position: How many scenarios were handed out, those passed over by `seek` included.
        skipped: Rows that were no scenario on the way to `position`; see `on_bad_line`.
    """

    def __init__(
        self,
        dataset: Iterable[Mapping[str, Any]],
        reader: RowReader[ScenarioT],
        *,
        start: int = 0,
        limit: int | None = None,
        on_bad_line: OnBadLine = "raise",
    ) -> None:
        self.dataset = dataset
        super().__init__(reader, start=start, limit=limit, on_bad_line=on_bad_line)

    def __repr__(self) -> str:
        return f"DatasetStream({type(self.dataset).__name__}, position={self.position})"

    def _open(self, start: int) -> Iterator[tuple[str, Any]]:
        return read_rows(self.dataset, start)

    def _content(self, raw: Any) -> bytes:
        return content_digest(raw).encode()


def stream_dataset(
    dataset: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]],
    scenario_type: type[ScenarioT] = PromptScenario,  # type: ignore[assignment]  # also the default of ScenarioT
    *,
    split: str | None = None,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
    metadata_key: str = "metadata",
    start: int = 0,
    limit: int | None = None,
    on_bad_line: OnBadLine = "raise",
) -> DatasetStream[ScenarioT]:
    """Make the scenarios of a dataset one at a time, in its order; it need not have an end.

    For an `IterableDataset` that is streamed, and all that is too large for `from_dataset`, whose arguments it takes.
    As `stream_jsonl` it is an open-ended source that a run resumes from: the rows before its place are then read again,
    and have to be the same. So shuffle the dataset with a seed, or not at all.

    Raises:
        ConfigurationError: At once, if `dataset` can be read only once, or an argument can't work; while reading, as by
            `from_dataset`.
    """
    check_slice(start, limit)
    rows = one_split(dataset, split)
    if hasattr(rows, "__next__"):
        msg = f"a {type(rows).__name__} can be read only once, so no run over it could be resumed"
        raise ConfigurationError(msg, "give what makes it, such as a Dataset, an IterableDataset or a list")
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, is_columnar=hasattr(rows, "features"))
    return DatasetStream(rows, reader, start=start, limit=limit, on_bad_line=on_bad_line)
