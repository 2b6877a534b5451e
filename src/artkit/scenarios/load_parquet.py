"""Scenarios from a Parquet file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from artkit.errors import ConfigurationError
from artkit.scenarios.checks import check_slice
from artkit.scenarios.loaded import LoadedScenarios, OnBadLine, OnDuplicate, collect
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.row_reader import Keys, RowReader, ScenarioT

__all__ = ["load_parquet"]

_BATCH_ROWS = 1_000


def load_parquet(
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
    on_duplicate: OnDuplicate = "raise",
) -> LoadedScenarios[ScenarioT]:
    """Read one scenario per row of a Parquet file.

    The arguments are those of `load_jsonl`; a bad line is a bad row here. A null in a prompt or in tools means that
    the key is absent, for Arrow gives every object of a column the same keys; a null under a field that has a default
    leaves it at that.

    Raises:
        ConfigurationError: If the file can't be read, or a row is refused as by `load_jsonl`. The message names file,
            row (from 0) and field.
    """
    check_slice(start, limit)
    keys = Keys(id=id_key, prompt=prompt_key, label=label_key, tools=tools_key, metadata=metadata_key)
    reader = RowReader(scenario_type=scenario_type, keys=keys, is_columnar=True)
    rows = islice(_read_rows(Path(path), start), limit)
    return collect(rows, reader, on_bad_line=on_bad_line, on_duplicate=on_duplicate)


def _read_rows(path: Path, start: int) -> Iterator[tuple[str, Any]]:
    """Yield the rows from `start` on; a thousand at a time are in memory."""
    from pyarrow import ArrowException  # type: ignore[import-untyped]  # heavy, and needed here only
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

    number = 0
    try:
        with ParquetFile(path) as file:
            if twice := [name for name, times in Counter(file.schema_arrow.names).items() if times > 1]:
                msg = f"{path}: the column {twice[0]!r} is there twice"
                raise ConfigurationError(msg, "leave one of the two out")
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                passed = min(max(start - number, 0), len(batch))
                for place, row in enumerate(batch.slice(passed).to_pylist(), start=number + passed):
                    yield f"{path}, row {place}", row
                number += len(batch)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}", "check the path") from error
    except (ArrowException, UnicodeDecodeError) as error:
        where = f"{path}, rows {number} to {number + _BATCH_ROWS - 1}" if number else f"{path}"
        raise ConfigurationError(f"{where}: no Parquet: {error}", "write the file again") from error
