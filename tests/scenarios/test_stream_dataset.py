"""Scenarios from a dataset of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest
from datasets import Dataset, DatasetDict, IterableDataset
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError, ResumeError
from artkit.scenarios import (
    Cursor,
    DatasetStream,
    PromptScenario,
    ScenarioBatch,
    ScenarioStream,
    from_dataset,
    stream_dataset,
)


def dataset(size: int) -> Dataset:
    return Dataset.from_dict({"q": [f"What is {n} + 3?" for n in range(size)], "a": [str(n + 3) for n in range(size)]})


def without_end() -> IterableDataset:
    def rows() -> Iterator[dict[str, Any]]:
        for number in count():
            yield {"id": str(number), "prompt": "x"}

    return IterableDataset.from_generator(rows)


async def batches_of(source: DatasetStream[PromptScenario], start: Cursor = Cursor()) -> list[ScenarioBatch[Any]]:
    return [batch async for batch in ScenarioStream(source).batches(2, start)]


def test_a_stream_has_the_scenarios_of_the_dataset() -> None:
    """Whatever kind it is, and of one split."""
    names = {"prompt_key": "q", "label_key": "a"}
    expected = from_dataset(dataset(5), **names)

    for rows in (dataset(5), dataset(5).to_iterable_dataset(num_shards=2), list(dataset(5))):
        assert list(stream_dataset(rows, **names)) == expected
        assert list(stream_dataset(rows, **names, start=1, limit=2)) == expected[1:3]
    assert list(stream_dataset(DatasetDict({"train": dataset(5)}), split="train", **names)) == expected


def test_a_dataset_without_an_end_is_read_as_far_as_it_is_asked_for() -> None:
    """And from wherever it stands."""
    stream = stream_dataset(without_end())

    assert [item.id for item in islice(stream, 2)] == ["0", "1"]
    stream.seek(40)
    assert next(stream).id == "40"
    assert repr(stream) == "DatasetStream(IterableDataset, position=41)"


@given(st.integers(1, 6), st.none() | st.integers(0, 2), st.data())
def test_a_run_over_a_dataset_resumes_with_the_same_batches(size: int, seed: int | None, data: st.DataObject) -> None:
    """Shuffled by its own buffer too."""
    rows = dataset(size).to_iterable_dataset()
    if seed is not None:
        rows = rows.shuffle(seed=seed, buffer_size=3)
    whole = asyncio.run(batches_of(stream_dataset(rows, prompt_key="q")))
    done = data.draw(st.integers(1, len(whole)))

    assert asyncio.run(batches_of(stream_dataset(rows, prompt_key="q"), whole[done - 1].cursor)) == whole[done:]


async def test_a_run_is_not_resumed_over_other_rows() -> None:
    """Some scenarios would be trained on twice and others never, in silence."""
    cursor = (await batches_of(stream_dataset(dataset(5), prompt_key="q")))[0].cursor

    assert len(await batches_of(stream_dataset(dataset(9), prompt_key="q"), cursor)) == 4
    for other in (
        stream_dataset(dataset(5).select([1, 0, 2, 3]), prompt_key="q"),
        stream_dataset(dataset(5), prompt_key="a"),
    ):
        with pytest.raises(ResumeError, match="the first 2 scenarios of the source are others"):
            await batches_of(other, cursor)


def test_bad_rows_are_skipped_and_counted_on_request() -> None:
    """As those of a file, and positions count scenarios."""
    stream = stream_dataset([{"prompt": "x"}, {"prompt": 3}, {"prompt": "y"}], on_bad_line="skip")
    texts = [item.messages[0]["content"] for item in stream]
    stream.seek(1)

    assert (texts, stream.position) == (["x", "y"], 1)
    assert next(stream).messages[0]["content"] == "y"
    assert stream.skipped == 1


def test_rows_that_can_be_read_only_once_are_refused() -> None:
    """What a resumed run would need of them is gone."""
    with pytest.raises(ConfigurationError, match="a generator can be read only once"):
        stream_dataset(row for row in [{"prompt": "x"}])
