"""Scenarios from a file of any size."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError, ResumeError
from artkit.scenarios import (
    Cursor,
    JsonlStream,
    PromptScenario,
    Scenario,
    ScenarioBatch,
    ScenarioStream,
    load_jsonl,
    stream_jsonl,
)


class Number(Scenario):
    value: int


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def rows(size: int) -> list[str]:
    return [f'{{"id": "{number}", "value": {number}}}' for number in range(size)]


def test_a_stream_has_the_scenarios_of_the_file(tmp_path: Path) -> None:
    """One after the other, and it knows where it stands."""
    file = write(tmp_path / "data.jsonl", '{"q": "x", "a": 1}', "", '{"q": "y", "a": 2}')
    stream = stream_jsonl(file, prompt_key="q", label_key="a")
    first = next(stream)

    assert isinstance(first, PromptScenario)
    assert repr(stream) == f"JsonlStream({str(file)!r}, position=1)"
    assert [first, *stream] == load_jsonl(file, prompt_key="q", label_key="a")
    assert (stream.position, list(stream)) == (2, [])


@given(st.lists(st.booleans(), max_size=8), st.integers(0, 4), st.none() | st.integers(1, 8), st.integers(0, 9))
def test_seeking_is_reading_on(
    tmp_path_factory: pytest.TempPathFactory, good: list[bool], start: int, limit: int | None, position: int
) -> None:
    """Positions count scenarios, also where bad lines lie between them and where the file is read in part."""
    lines = [row if is_good else "{" for row, is_good in zip(rows(8), good, strict=False)]
    file = write(tmp_path_factory.mktemp("rows") / "data.jsonl", *lines)
    stream = stream_jsonl(file, Number, start=start, limit=limit, on_bad_line="skip")
    scenarios, skipped = list(stream), stream.skipped
    stream.seek(position)

    assert list(stream) == scenarios[position:]
    assert stream.skipped == skipped
    assert [int(item.id) for item in scenarios] == [
        number for number in range(len(lines))[start : None if limit is None else start + limit] if good[number]
    ]


@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_a_run_over_a_file_resumes_with_the_same_batches(
    tmp_path_factory: pytest.TempPathFactory, size: int, groups_per_step: int, data: st.DataObject
) -> None:
    """It is an open-ended source with a position."""
    file = write(tmp_path_factory.mktemp("rows") / "data.jsonl", *rows(size))

    async def batches(*start):
        stream = ScenarioStream(stream_jsonl(file, Number))
        assert stream.can_seek
        return [batch async for batch in stream.batches(groups_per_step, *start)]

    whole = asyncio.run(batches())
    done = data.draw(st.integers(1, len(whole)))

    assert asyncio.run(batches(whole[done - 1].cursor)) == whole[done:]


async def batches_of(source: JsonlStream[Number], start: Cursor = Cursor()) -> list[ScenarioBatch[Number]]:
    return [batch async for batch in ScenarioStream(source).batches(2, start)]


@pytest.mark.parametrize("on_bad_line", ["raise", "skip"])
async def test_a_run_is_not_resumed_over_another_file(tmp_path: Path, on_bad_line: Literal["raise", "skip"]) -> None:
    """Neither one with other rows before its place, nor one that is shorter, nor one that is read as something else."""
    lines = [*rows(4), *(["{"] if on_bad_line == "skip" else []), *rows(6)[4:]]
    cursor = (await batches_of(stream_jsonl(write(tmp_path / "a.jsonl", *lines), Number, on_bad_line="skip")))[1].cursor
    others = [
        stream_jsonl(write(tmp_path / "b.jsonl", *lines[::-1]), Number, on_bad_line="skip"),
        stream_jsonl(write(tmp_path / "c.jsonl", *lines[:3]), Number, on_bad_line=on_bad_line),
        stream_jsonl(write(tmp_path / "d.jsonl", *lines), Number, start=1, on_bad_line="skip"),
        stream_jsonl(tmp_path / "a.jsonl", prompt_key="id", on_bad_line="skip"),
    ]

    for other in others:
        with pytest.raises(ResumeError, match="the first 4 scenarios of the source are others"):
            await batches_of(other, cursor)


async def test_a_file_that_moved_and_grew_is_resumed(tmp_path: Path) -> None:
    """Where it lies, how it is packed and what comes later is none of the past."""
    cursor = (await batches_of(stream_jsonl(write(tmp_path / "a.jsonl", *rows(3)), Number)))[-1].cursor
    moved = tmp_path / "b.jsonl.gz"
    moved.write_bytes(gzip.compress("\r\n".join(rows(5)).encode()))

    (batch,) = await batches_of(stream_jsonl(moved, Number), cursor)

    assert [item.id for item in batch.items] == ["3", "4"]


@given(st.lists(st.booleans(), max_size=8), st.integers(0, 8))
def test_a_fingerprint_is_the_same_whether_read_or_passed_over(
    tmp_path_factory: pytest.TempPathFactory, good: list[bool], position: int
) -> None:
    """It names what lies before the position, however the position was reached."""
    lines = [row if is_good else "{" for row, is_good in zip(rows(8), good, strict=False)]
    file = write(tmp_path_factory.mktemp("rows") / "data.jsonl", *lines)
    read, passed = (stream_jsonl(file, Number, on_bad_line="skip") for _ in range(2))
    position = len(list(islice(read, position)))
    passed.seek(position)

    assert passed.fingerprint == read.fingerprint
    assert list(passed) == list(read)


def test_lines_that_are_passed_over_are_not_looked_at(tmp_path: Path) -> None:
    """Resuming at row 900,000 must not take as long as reading them."""
    stream = stream_jsonl(write(tmp_path / "data.jsonl", "{", "[]", rows(1)[0]), Number)
    stream.seek(2)

    assert list(stream) == [Number(id="0", value=0)]


def test_a_bad_line_is_raised_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    """An iterator that raised once would then seem to be at its end."""
    stream = stream_jsonl(write(tmp_path / "data.jsonl", rows(1)[0], "{"), Number)
    next(stream)

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"data\.jsonl, line 2: no JSON"):
            next(stream)
    assert stream.position == 1


def test_a_closed_stream_hands_out_nothing_until_it_seeks(tmp_path: Path) -> None:
    """Closing twice is fine."""
    stream = stream_jsonl(write(tmp_path / "data.jsonl", *rows(3)), Number)
    next(stream)
    stream.close()
    stream.close()

    assert list(stream) == []
    stream.seek(stream.position)
    assert [item.id for item in stream] == ["1", "2"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Nothing is kept of a scenario that was handed out."""
    peaks = []
    for size in (2_000, 20_000):
        stream = stream_jsonl(write(tmp_path / "data.jsonl", *rows(size)), Number)
        for _ in islice(stream, 100):
            pass
        tracemalloc.start()
        assert sum(1 for _ in stream) == size - 100
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 2 * peaks[0] + 10_000


def test_arguments_that_cannot_work_are_refused_at_once(tmp_path: Path) -> None:
    """And not when the first scenario is asked for."""
    file = write(tmp_path / "data.jsonl", *rows(1))

    with pytest.raises(ConfigurationError, match=r"none\.jsonl is no file"):
        stream_jsonl(tmp_path / "none.jsonl")
    with pytest.raises(ConfigurationError, match="on_bad_line='warn' is no choice"):
        stream_jsonl(file, on_bad_line="warn")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="start=-1 is no whole number"):
        stream_jsonl(file).seek(-1)
