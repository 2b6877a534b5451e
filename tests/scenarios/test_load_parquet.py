"""Scenarios from Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, from_dataset, load_parquet


class Sum(Scenario):
    left: int
    right: int


def write(path: Path, rows: list[dict[str, Any]], row_group_size: int | None = None) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
    return path


def test_a_row_is_a_scenario(tmp_path: Path) -> None:
    """With the nulls of a column left out of prompts and tools, as from a dataset."""
    rows = [
        {"id": "a", "chat": [{"role": "user", "content": "hi"}], "answer": 5, "level": "easy"},
        {"id": "b", "chat": [{"role": "user", "content": "yo", "name": "Al"}], "answer": None, "level": None},
    ]

    assert load_parquet(write(tmp_path / "data.parquet", rows), prompt_key="chat", label_key="answer") == [
        PromptScenario(id="a", messages="hi", label=5, metadata={"level": "easy"}),
        PromptScenario(id="b", messages=[{"role": "user", "content": "yo", "name": "Al"}], metadata={"level": None}),
    ]


@given(st.integers(0, 2500), st.none() | st.integers(1, 2500))
def test_start_and_limit_are_those_of_a_slice(
    tmp_path_factory: pytest.TempPathFactory, start: int, limit: int | None
) -> None:
    """Over the borders of what is read at a time."""
    file = tmp_path_factory.getbasetemp() / "slices.parquet"
    if not file.exists():
        write(file, [{"id": str(number), "left": number, "right": 1} for number in range(2100)], row_group_size=700)
    end = 2100 if limit is None else min(2100, start + limit)

    assert load_parquet(file, Sum, start=start, limit=limit) == [
        Sum(id=str(number), left=number, right=1) for number in range(start, end)
    ]


def test_a_bad_row_is_named_with_file_row_and_field(tmp_path: Path) -> None:
    """Rows are counted from 0, as in every table."""
    rows = [{"id": "a", "left": 1, "right": 2}, {"id": "b", "left": 1, "right": None}]
    file = write(tmp_path / "data.parquet", rows)

    with pytest.raises(
        ConfigurationError, match=r"data\.parquet, row 1: field 'right': Input should be a valid integer"
    ):
        load_parquet(file, Sum)
    loaded = load_parquet(file, Sum, on_bad_line="skip")
    assert (loaded, loaded.skipped) == ([Sum(id="a", left=1, right=2)], 1)


def test_a_file_and_a_list_of_its_rows_give_the_same_names(tmp_path: Path) -> None:
    """Where a row stands does not change what it is."""
    rows = [{"prompt": "x", "label": 1}, {"prompt": "y", "label": None}]

    assert load_parquet(write(tmp_path / "data.parquet", rows)) == from_dataset(rows)


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    """With the path that was looked at."""
    file = tmp_path / "data.parquet"
    file.write_bytes(b"no parquet at all, and longer than its marks")

    with pytest.raises(ConfigurationError, match=r"data\.parquet: no Parquet: "):
        load_parquet(file)
    with pytest.raises(ConfigurationError, match=r"none\.parquet can't be read: .*No such file"):
        load_parquet(tmp_path / "none.parquet")


def test_a_text_that_is_no_utf8_says_in_which_rows(tmp_path: Path) -> None:
    """Arrow checks it only when it is read."""
    bad = pa.Array.from_buffers(
        pa.utf8(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xe9")]
    )
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": pa.array(["a"]), "prompt": bad}), file)

    with pytest.raises(ConfigurationError, match=r"data\.parquet: no Parquet: .*utf-8"):
        load_parquet(file)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """One of the two would be lost, as with a key that comes twice."""
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table([pa.array(["x"]), pa.array(["y"])], names=["prompt", "prompt"]), file)

    with pytest.raises(ConfigurationError, match=r"data\.parquet: the column 'prompt' is there twice"):
        load_parquet(file)
