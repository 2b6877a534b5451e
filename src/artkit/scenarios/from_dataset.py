"""Scenarios from a Hugging Face dataset, or from any rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar, overload

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.loaded import LoadedScenarios, OnBadLine, OnDuplicate, collect
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader
from artkit.scenarios.scenario import Scenario

__all__ = ["from_dataset"]

ScenarioT = TypeVar("ScenarioT", bound=Scenario)


@overload
def from_dataset(
    dataset: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]],
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
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[PromptScenario]: ...
@overload
def from_dataset(
    dataset: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]],
    scenario_type: type[ScenarioT],
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
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[ScenarioT]: ...
def from_dataset(
    dataset: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]],
    scenario_type: type[Scenario] = PromptScenario,
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
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[Any]:
    """Make one scenario of each row of a Hugging Face dataset, or of any iterable of mappings.

    `dataset` is a `Dataset` or `IterableDataset`, or any iterable of mappings; one without an end needs a `limit`. Of a
    `DatasetDict` or `IterableDatasetDict`, `split` says which split; it is needed there, and only there. The other
    arguments are those of `load_jsonl`; a bad line is a bad row here. In a Hugging Face dataset a null means what it
    means to `load_parquet`.

    >>> from_dataset([{"question": "2 + 3?", "answer": "5"}], prompt_key="question", label_key="answer")[0].label
    '5'

    Raises:
        ConfigurationError: If `dataset` holds several splits and `split` names none of them, or a row is refused as by
            `load_jsonl`; the message names row (from 0) and field.
    """
    check_slice(start, limit)
    rows = _one_split(dataset, split)
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, is_columnar=hasattr(rows, "features"))
    numbered = islice(_read_rows(rows, start), limit)
    return collect(numbered, reader, on_bad_line=on_bad_line, on_duplicate=on_duplicate)


def _one_split(dataset: Any, split: str | None) -> Any:
    if not isinstance(dataset, Mapping):
        if split is not None:
            msg = f"split={split!r}: the dataset holds no splits"
            raise ConfigurationError(msg, "leave split= out, or give the whole DatasetDict")
        if not isinstance(dataset, Iterable):
            msg = f"{dataset!r} can't be iterated over"
            raise ConfigurationError(msg, "give a Dataset or an iterable of mappings")
        return dataset
    names = ", ".join(map(repr, dataset)) or "none"
    if split is None:
        msg = f"the dataset holds several splits: {names}"
        raise ConfigurationError(msg, f"say which one, as in split={next(iter(dataset), 'train')!r}")
    if split not in dataset:
        raise ConfigurationError(f"split={split!r} is no split of the dataset", f"its splits are {names}")
    return dataset[split]


def _read_rows(dataset: Any, start: int) -> Iterator[tuple[str, Any]]:
    # A Hugging Face dataset passes over rows without decoding them.
    rows = dataset.skip(start) if start and hasattr(dataset, "skip") else islice(dataset, start, None)
    return ((f"row {number}", row) for number, row in enumerate(rows, start=start))
