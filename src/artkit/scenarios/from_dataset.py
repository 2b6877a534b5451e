"""Scenarios from a Hugging Face dataset, or from any rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from artkit.scenarios.checks import check_slice
from artkit.scenarios.dataset_rows import one_split, read_rows
from artkit.scenarios.loaded import LoadedScenarios, OnBadLine, OnDuplicate, collect
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader, ScenarioT

__all__ = ["from_dataset"]


def from_dataset(
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
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[ScenarioT]:
    """Make one scenario of each row of a Hugging Face dataset, or of any iterable of mappings.

    `dataset` is a `Dataset` or `IterableDataset`, or any iterable of mappings. All of its rows are read into memory at
    once: one without an end needs a `limit`, or is read by `stream_dataset`. Of a
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
    rows = one_split(dataset, split)
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, is_columnar=hasattr(rows, "features"))
    numbered = islice(read_rows(rows, start), limit)
    return collect(numbered, reader, on_bad_line=on_bad_line, on_duplicate=on_duplicate)
