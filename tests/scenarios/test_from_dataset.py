"""Scenarios from datasets and other rows."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict, IterableDatasetDict

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, from_dataset

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


def test_a_row_without_an_id_is_named_by_its_content() -> None:
    """So the name stays when rows are added or moved, and neither the order of keys nor a null counts."""
    rows: list[dict[str, Any]] = [{"prompt": "x", "label": 1}, {"prompt": "y", "label": 1}, {"prompt": "z", "id": None}]
    first, second, third = (scenario.id for scenario in from_dataset(rows))
    moved = [{"label": 1, "prompt": "y", "id": None}, {"label": 1, "prompt": "x", "tools": None}]

    assert [scenario.id for scenario in from_dataset(moved)] == [second, first]
    assert len({first, second, third}) == 3


def test_a_key_that_was_named_must_be_there() -> None:
    """Every label would be None, and every reward nothing."""
    with pytest.raises(ConfigurationError, match=r"row 0: field 'answr' is missing .*the row has 'prompt', 'answer'"):
        from_dataset([{"prompt": "x", "answer": "5"}], label_key="answr")


def test_a_hugging_face_dataset_gives_one_scenario_per_row() -> None:
    """Both kinds, map-style and streamed, and a part of each."""
    dataset = Dataset.from_dict({"id": ["a", "b", "c"], "prompt": ["x", "y", "z"], "label": ["1", "2", "3"]})
    expected = [
        PromptScenario(id=name, messages=text, label=label)
        for name, text, label in zip(*dataset[:].values(), strict=True)
    ]

    for rows in (dataset, dataset.to_iterable_dataset(), list(dataset), (row for row in list(dataset))):
        assert from_dataset(rows) == expected
    for rows in (dataset, dataset.to_iterable_dataset(), list(dataset), (row for row in list(dataset))):
        assert from_dataset(rows, start=1, limit=1) == expected[1:2]
    assert from_dataset(dataset, start=5) == []


def test_a_row_is_named_by_its_place_in_the_dataset() -> None:
    """Also behind a start."""
    with pytest.raises(ConfigurationError, match="row 2: field 'prompt': Input should be a valid list"):
        from_dataset(Dataset.from_dict({"prompt": [1, 2, 3]}), start=2)


def test_a_dataset_of_several_splits_asks_for_one() -> None:
    """Training on the test split is not what anybody means."""
    train, test = (Dataset.from_dict({"id": [name], "prompt": ["x"]}) for name in ("a", "b"))
    splits = DatasetDict({"train": train, "test": test})
    streamed = IterableDatasetDict({name: one.to_iterable_dataset() for name, one in splits.items()})

    for several in (splits, streamed):
        assert [item.id for item in from_dataset(several, split="test")] == ["b"]
        with pytest.raises(ConfigurationError, match=r"several splits: 'train', 'test' .*as in split='train'"):
            from_dataset(several)
        with pytest.raises(ConfigurationError, match=r"split='val' is no split of the dataset .*'train', 'test'"):
            from_dataset(several, split="val")
    with pytest.raises(ConfigurationError, match=r"split='train': the dataset holds no splits"):
        from_dataset(train, split="train")


def test_nulls_that_arrow_filled_in_are_not_sent() -> None:
    """Arrow gives every message all keys that any has; a server refuses `"tool_calls": null`."""
    tools = [
        {"function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}},
        {"function": {"name": "say", "parameters": {"properties": {"content": {"type": "string"}}}}},
    ]
    messages = [
        {"role": "user", "content": "2 + 3?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "5", "tool_call_id": "c1"},
    ]
    dataset = Dataset.from_list([{"id": "a", "messages": messages, "tools": tools, "label": {"sum": 5, "unit": None}}])
    expected = [PromptScenario(id="a", messages=messages, tools=tools, label={"sum": 5, "unit": None})]

    assert from_dataset(dataset) == from_dataset(dataset.to_iterable_dataset()) == expected


def test_nulls_of_blocks_are_not_sent_either() -> None:
    """A block of text that also has `"image_url": null` is refused by servers."""
    blocks = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:A"}}]
    dataset = Dataset.from_list([{"id": "a", "prompt": [{"role": "user", "content": blocks}]}])

    assert from_dataset(dataset)[0].messages == [{"role": "user", "content": blocks}]


def test_rows_of_arrays_are_named_as_rows_of_numbers() -> None:
    """The format that a dataset is set to makes no other task, and the middle of a long array does."""
    numbers = list(range(2_000))
    dataset = Dataset.from_dict({"prompt": ["x", "x"], "series": [numbers, [*numbers[:1_000], 0, *numbers[1_001:]]]})
    plain = [item.id for item in from_dataset(dataset)]

    assert [item.id for item in from_dataset(dataset.with_format("numpy"))] == plain
    assert len(set(plain)) == 2


def test_nulls_that_a_user_wrote_are_kept() -> None:
    """In plain rows a null is a value."""
    tools = [{"function": {"name": "add", "parameters": {"properties": {"a": {"default": None}}}}}]

    assert from_dataset([{"id": "a", "prompt": "x", "tools": tools}])[0].tools == tools


def test_a_null_leaves_a_field_at_its_default() -> None:
    """A column has no other way to say that a row has no value."""

    class Game(Scenario):
        size: int = 3
        start: int | None

    dataset = Dataset.from_dict({"id": ["a", "b"], "size": [None, 4], "start": [1, None]})

    assert from_dataset(dataset, Game) == [Game(id="a", size=3, start=1), Game(id="b", size=4, start=None)]


def test_a_conversation_may_be_an_object_of_columns() -> None:
    """So datasets gives a sequence of objects in some versions."""
    row = {"id": "a", "prompt": {"role": ["system", "user"], "content": ["Be brief.", "hi"]}}

    assert from_dataset([row])[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    with pytest.raises(ConfigurationError, match="row 0: field 'prompt': Input should be a valid list"):
        from_dataset([{"id": "a", "prompt": {"role": ["user"], "content": []}}])


def test_whole_numbers_of_numpy_are_ids() -> None:
    """Tables give them."""
    assert from_dataset([{"id": np.int64(7), "prompt": "x"}])[0].id == "7"


def test_rows_without_an_end_need_a_limit() -> None:
    """And no more of them is read than that."""
    numbers = count()
    rows = ({"id": number, "prompt": "x"} for number in numbers)

    assert [item.id for item in from_dataset(rows, start=1, limit=2)] == ["1", "2"]
    assert next(numbers) == 3


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (3, "3 can't be iterated over"),
        (["prompt", "label"], r"row 0: a str is no object with fields .*DataFrame gives them by to_dict\('records'\)"),
    ],
)
def test_what_holds_no_rows_is_refused(rows, words: str) -> None:
    """A DataFrame, for one, gives the names of its columns."""
    with pytest.raises(ConfigurationError, match=words):
        from_dataset(rows)
