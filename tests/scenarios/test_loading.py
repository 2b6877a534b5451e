"""Scenarios from rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, from_dataset, load_jsonl


class Sum(Scenario):
    left: int
    right: int


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_prompt_is_text_or_messages(tmp_path: Path) -> None:
    """Both are common; what no field takes is kept."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3?"}]
    tools = [{"type": "function", "function": {"name": "add"}}]
    file = write(
        tmp_path / "data.jsonl",
        json.dumps({"id": "a", "prompt": "2 + 3?", "label": 5, "level": "easy"}),
        json.dumps({"id": 7, "prompt": messages, "tools": tools, "metadata": {"source": "book"}}),
    )

    assert load_jsonl(file) == [
        PromptScenario(id="a", messages=[{"role": "user", "content": "2 + 3?"}], label=5, metadata={"level": "easy"}),
        PromptScenario(id="7", messages=messages, tools=tools, metadata={"source": "book"}),
    ]


def test_fields_have_the_names_that_the_user_gives(tmp_path: Path) -> None:
    """Nobody renames a data set for a library."""
    file = write(tmp_path / "data.jsonl", '{"question": "2 + 3?", "answer": "5", "key": "q1"}')

    assert load_jsonl(file, id_key="key", prompt_key="question", label_key="answer") == [
        PromptScenario(id="q1", messages="2 + 3?", label="5")
    ]


def test_messages_may_go_by_their_own_name(tmp_path: Path) -> None:
    """As in most chat data."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "messages": [{"role": "user", "content": "hi"}]}')

    assert load_jsonl(file) == [PromptScenario(id="a", messages="hi")]


def test_a_type_of_ones_own_takes_the_row_as_it_is(tmp_path: Path) -> None:
    """Its fields say what a row may hold."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "left": 2, "right": 3}')

    assert load_jsonl(file, Sum) == [Sum(id="a", left=2, right=3)]


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path: Path) -> None:
    """Editors leave both."""
    file = tmp_path / "data.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"id": "a", "prompt": "x"}\r\n\n  \n{"id": "b", "prompt": "y"}')

    assert [scenario.id for scenario in load_jsonl(file)] == ["a", "b"]


def test_a_row_without_an_id_is_named_by_its_content() -> None:
    """So the name stays when rows are added or moved, and the order of keys does not count."""
    rows = [{"prompt": "x", "label": 1}, {"prompt": "y", "label": 1}, {"label": 1, "prompt": "z", "id": None}]
    first, second, third = (scenario.id for scenario in from_dataset(rows))
    moved = [{"label": 1, "prompt": "y"}, {"label": 1, "prompt": "x"}]

    assert [scenario.id for scenario in from_dataset(moved)] == [second, first]
    assert len({first, second, third}) == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "b", "prompt"', "no JSON"),
        ("[1, 2]", "a list is no object"),
        ('{"id": "b"}', "field 'prompt' is missing.*prompt_key"),
        ('{"id": "b", "prompt": 3}', "field 'messages': Input should be a valid list"),
        ('{"id": "b", "prompt": []}', "field 'messages': List should have at least 1 item"),
        ('{"id": "b", "prompt": [{"content": "hi"}]}', "field 'messages': .*message 0 has no role"),
        ('{"id": "b", "prompt": "x", "tools": "add"}', "field 'tools': Input should be a valid list"),
        ('{"id": "b", "prompt": "x", "metadata": 3}', "field 'metadata': Input should be a valid dictionary"),
        ('{"id": 1.5, "prompt": "x"}', "field 'id': 1.5 is no str or whole number"),
        ('{"id": "a", "prompt": "x"}', "field 'id': 'a' is the id of .*line 1 too"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path: Path, line: str, words: str) -> None:
    """A million rows are not searched by hand."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "prompt": "x"}', "", line)

    with pytest.raises(ConfigurationError, match=rf"data\.jsonl, line 3: {words}"):
        load_jsonl(file)


def test_a_line_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    """Replacing letters would change the task."""
    file = tmp_path / "data.jsonl"
    file.write_bytes('{"id": "a", "prompt": "é"}'.encode("latin-1"))

    with pytest.raises(ConfigurationError, match=r"line 1: no JSON: .*utf-8"):
        load_jsonl(file)


def test_unknown_fields_of_a_type_of_ones_own_are_refused(tmp_path: Path) -> None:
    """A misspelt field would silently be its default."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "left": 2, "rihgt": 3}')

    with pytest.raises(ConfigurationError, match=r"line 1: field 'right': Field required .*has the fields id, left"):
        load_jsonl(file, Sum)


def test_a_key_that_was_named_must_be_there() -> None:
    """Every label would be None, and every reward nothing."""
    with pytest.raises(ConfigurationError, match=r"row 0: field 'answr' is missing .*the row has 'prompt', 'answer'"):
        from_dataset([{"prompt": "x", "answer": "5"}], label_key="answr")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the path that was looked at."""
    with pytest.raises(ConfigurationError, match=r"none\.jsonl can't be read: No such file"):
        load_jsonl(tmp_path / "none.jsonl")


def test_a_hugging_face_dataset_gives_one_scenario_per_row() -> None:
    """Both kinds, map-style and streamed."""
    dataset = Dataset.from_dict({"id": ["a", "b"], "prompt": ["x", "y"], "label": ["1", "2"]})
    expected = [PromptScenario(id="a", messages="x", label="1"), PromptScenario(id="b", messages="y", label="2")]

    assert from_dataset(dataset) == from_dataset(dataset.to_iterable_dataset()) == expected


def test_a_dataset_of_several_splits_asks_for_one() -> None:
    """Training on the test split is not what anybody means."""
    split = Dataset.from_dict({"id": ["a"], "prompt": ["x"]})

    with pytest.raises(ConfigurationError, match=r"several splits: 'train', 'test' .*dataset\['train'\]"):
        from_dataset(DatasetDict({"train": split, "test": split}))


@given(
    st.lists(st.builds(Sum, id=st.text(min_size=1), left=st.integers(), right=st.integers()), unique_by=lambda s: s.id)
)
def test_what_was_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, scenarios: list[Sum]) -> None:
    """Whatever letters the ids are made of."""
    file = tmp_path_factory.mktemp("rows") / "data.jsonl"
    file.write_text("".join(json.dumps(scenario.model_dump()) + "\n" for scenario in scenarios), encoding="utf-8")

    assert load_jsonl(file, Sum) == scenarios
