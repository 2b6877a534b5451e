"""Scenarios from JSON lines."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import model_validator

from artkit.errors import ConfigurationError
from artkit.scenarios import LoadedScenarios, PromptScenario, Scenario, load_jsonl


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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "b", "prompt"', "no JSON: Expecting ':' delimiter at column 21"),
        ('{"id": "b", "prompt": "x", "label": NaN}', "no JSON: NaN is no JSON value; write null"),
        ('{"id": "b", "prompt": "x", "label": -Infinity}', "no JSON: -Infinity is no JSON value"),
        ('{"id": "b", "prompt": "x", "label": 1e999}', "no JSON: 1e999 is too large for a float"),
        ('{"id": "b", "prompt": "x", "label": ' + "1" * 5000 + "}", "no JSON: Exceeds the limit"),
        ('{"id": "b", "prompt": "x", "label": 1, "label": 2}', "no JSON: the key 'label' comes twice"),
        ('{"id": "b", "prompt": "\\ud83d"}', r"no JSON: '\\ud83d' is half of a surrogate pair"),
        ("[" * 100_000, "no JSON: it is nested too deep"),
        ("[1, 2]", "a list is no object"),
        ('{"id": "b"}', "field 'prompt' is missing.*prompt_key"),
        ('{"id": "b", "prompt": 3}', "field 'prompt': Input should be a valid list"),
        ('{"id": "b", "prompt": []}', "field 'prompt': List should have at least 1 item"),
        ('{"id": "b", "prompt": [{"content": "hi"}]}', "field 'prompt': .*message 0 has no role"),
        ('{"id": "b", "prompt": "x", "tools": "add"}', "field 'tools': Input should be a valid list"),
        ('{"id": "b", "prompt": "x", "metadata": 3}', "field 'metadata': Input should be a valid dictionary"),
        ('{"id": "b", "prompt": "x", "level": 1, "metadata": {"level": 2}}', "field 'level' is in 'metadata' too"),
        ('{"id": true, "prompt": "x"}', "field 'id': True is no str or whole number"),
        ('{"id": "", "prompt": "x"}', "field 'id': String should have at least 1 character"),
        ('{"id": 1.5, "prompt": "x"}', "field 'id': 1.5 is no str or whole number"),
        ('{"id": "a", "prompt": "x"}', "field 'id': 'a' is the id of .*line 1 too"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path: Path, line: str, words: str) -> None:
    """A million rows are not searched by hand."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "prompt": "x"}', "", line)

    with pytest.raises(ConfigurationError, match=rf"data\.jsonl, line 3: {words}"):
        load_jsonl(file)


def test_a_row_that_is_nested_too_deep_to_be_named_is_a_bad_line(tmp_path: Path) -> None:
    """It may be skipped as any other."""
    deep = '{"prompt": "x", "label": ' + "[" * 900 + "]" * 900 + "}"
    file = write(tmp_path / "data.jsonl", '{"prompt": "x"}', deep)

    with pytest.raises(ConfigurationError, match=r"line 2: a dict is nested too deep to be told from others"):
        load_jsonl(file)
    assert load_jsonl(file, on_bad_line="skip").skipped == 1


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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the path that was looked at."""
    with pytest.raises(ConfigurationError, match=r"none\.jsonl can't be read: No such file"):
        load_jsonl(tmp_path / "none.jsonl")


@given(
    st.lists(st.builds(Sum, id=st.text(min_size=1), left=st.integers(), right=st.integers()), unique_by=lambda s: s.id)
)
def test_what_was_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, scenarios: list[Sum]) -> None:
    """Whatever letters the ids are made of."""
    file = tmp_path_factory.mktemp("rows") / "data.jsonl"
    file.write_text("".join(json.dumps(scenario.model_dump()) + "\n" for scenario in scenarios), encoding="utf-8")

    assert load_jsonl(file, Sum) == scenarios


def test_what_a_row_has_under_every_name_is_kept(tmp_path: Path) -> None:
    """A column that happens to be called like a field is not that field, and is not lost."""
    file = write(
        tmp_path / "data.jsonl",
        json.dumps({"q": "x", "a": "5", "f": [{"type": "function"}], "m": {"b": 1}, "label": "L", "messages": "M"}),
    )

    assert load_jsonl(file, prompt_key="q", label_key="a", tools_key="f", metadata_key="m")[0].model_dump(
        exclude={"id"}
    ) == {
        "messages": [{"role": "user", "content": "x"}],
        "label": "5",
        "tools": [{"type": "function"}],
        "metadata": {"b": 1, "label": "L", "messages": "M"},
    }


def test_conversations_may_be_turns_of_sharegpt_and_parts_json_text(tmp_path: Path) -> None:
    """As many published sets have them."""
    turns = [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]
    row = {"id": "a", "conversations": turns, "tools": '[{"type": "function"}]', "metadata": '{"level": 1}'}

    assert load_jsonl(write(tmp_path / "data.jsonl", json.dumps(row)), prompt_key="conversations") == [
        PromptScenario(
            id="a",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "yo"},
            ],
            tools=[{"type": "function"}],
            metadata={"level": 1},
        )
    ]


def test_a_conversation_may_be_json_text(tmp_path: Path) -> None:
    """Tables of text keep it so; the model must not be shown the JSON. Any other JSON is what the prompt says."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    texts = [json.dumps(messages), json.dumps([{"from": "human", "value": "hi"}]), "[1, 2]", '[{"key": 1}]', "[]", "[x"]
    file = write(tmp_path / "data.jsonl", *(json.dumps({"prompt": text}) for text in texts))

    assert [item.messages for item in load_jsonl(file)] == [
        messages,
        messages[1:],
        *([{"role": "user", "content": text}] for text in texts[2:]),
    ]


def test_json_text_is_as_strict_as_a_line(tmp_path: Path) -> None:
    """What no line may hold, none of its fields may."""
    file = write(tmp_path / "data.jsonl", json.dumps({"prompt": "x", "metadata": '{"level": NaN}'}))

    with pytest.raises(ConfigurationError, match="line 1: field 'metadata': Input should be a valid dictionary"):
        load_jsonl(file)


def test_a_field_may_be_inside_of_another(tmp_path: Path) -> None:
    """Sets made for other trainers keep the answer so; what no part takes is still kept."""
    row = {"prompt": "x", "reward_model": {"style": "rule", "truth": "5"}, "info": {"index": 7}, "a.b": "kept"}
    file = write(tmp_path / "data.jsonl", json.dumps(row), json.dumps({"prompt": "y", "info": {"index": 8}}))
    names = {"id_key": "info.index", "label_key": "reward_model.truth"}

    assert load_jsonl(file, **names, limit=1) == [
        PromptScenario(id="7", messages="x", label="5", metadata={"reward_model": {"style": "rule"}, "a.b": "kept"})
    ]
    assert load_jsonl(file, label_key="a.b", limit=1)[0].label == "kept"
    with pytest.raises(ConfigurationError, match=r"line 2: field 'reward_model\.truth' is missing .*'prompt', 'info'"):
        load_jsonl(file, **names)


def test_two_parts_may_be_of_one_field(tmp_path: Path) -> None:
    """A question that names itself, or a text to repeat."""
    file = write(tmp_path / "data.jsonl", '{"q": "x", "level": 1}')

    assert load_jsonl(file, id_key="q", prompt_key="q", label_key="q") == [
        PromptScenario(id="x", messages="x", label="x", metadata={"level": 1})
    ]


def test_what_is_no_type_of_scenarios_is_refused(tmp_path: Path) -> None:
    """Before a row is read."""
    with pytest.raises(ConfigurationError, match="scenario_type=<class 'dict'> is no class of scenarios"):
        load_jsonl(write(tmp_path / "data.jsonl", "{}"), dict)  # type: ignore[type-var]


def test_a_speaker_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """What a "judge" says is neither the user's nor the model's."""
    file = write(tmp_path / "data.jsonl", '{"prompt": [{"from": "judge", "value": "hi"}]}')

    with pytest.raises(ConfigurationError, match=r"line 1: field 'prompt': .*message 0 has no role"):
        load_jsonl(file)


def test_a_field_is_named_as_the_user_knows_it(tmp_path: Path) -> None:
    """Nobody finds "messages" in a file of questions."""
    file = write(tmp_path / "data.jsonl", '{"question": 3}', '{"messages": 3}')

    with pytest.raises(ConfigurationError, match="line 1: field 'question': Input should be a valid list"):
        load_jsonl(file, prompt_key="question")
    with pytest.raises(ConfigurationError, match="line 2: field 'messages': Input should be a valid list"):
        load_jsonl(file, start=1)


def test_a_renamed_field_of_ones_own_type_is_there_once(tmp_path: Path) -> None:
    """Which of the two was meant, nobody can tell."""

    class Labelled(Scenario):
        label: str

    file = write(tmp_path / "data.jsonl", '{"id": "a", "answer": "5"}', '{"id": "b", "answer": "5", "label": "6"}')

    assert load_jsonl(file, Labelled, label_key="answer", limit=1) == [Labelled(id="a", label="5")]
    with pytest.raises(ConfigurationError, match="line 2: field 'label' is there twice, once as 'answer'"):
        load_jsonl(file, Labelled, label_key="answer")


@pytest.mark.parametrize("extra", ["forbid", "ignore"])
def test_a_field_that_was_renamed_away_is_said_to_be(tmp_path: Path, extra: Literal["forbid", "ignore"]) -> None:
    """The row has it, so "Field required" would be no help."""

    class Asked(Scenario, extra=extra):
        question: str

    file = write(tmp_path / "data.jsonl", '{"id": "a", "question": "x"}')

    with pytest.raises(
        ConfigurationError,
        match=r"line 1: field 'question' is renamed to 'prompt', which Asked has no .*leave prompt_key='question' out",
    ):
        load_jsonl(file, Asked, prompt_key="question")
    assert load_jsonl(file, Asked) == [Asked(id="a", question="x")]


def test_a_subclass_of_the_prompt_scenario_takes_its_own_fields(tmp_path: Path) -> None:
    """And the rest is still kept."""

    class Graded(PromptScenario):
        points: int

    file = write(tmp_path / "data.jsonl", '{"id": "a", "prompt": "x", "points": 3, "level": 1}')

    assert load_jsonl(file, Graded) == [Graded(id="a", messages="x", points=3, metadata={"level": 1})]


def test_whole_numbers_of_any_size_stay_exact(tmp_path: Path) -> None:
    """An id of 20 digits that becomes a float is the id of another row."""
    file = write(tmp_path / "data.jsonl", f'{{"id": {10**30 + 1}, "prompt": "x", "label": {2**64 + 1}}}')

    assert load_jsonl(file) == [PromptScenario(id=str(10**30 + 1), messages="x", label=2**64 + 1)]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """JSON allows the line separators of Unicode inside a text."""
    file = tmp_path / "data.jsonl"
    file.write_text('{"id": "a", "prompt": "one\u2028two\u0085three"}\n', encoding="utf-8")

    assert load_jsonl(file) == [PromptScenario(id="a", messages="one\u2028two\u0085three")]


def test_a_packed_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    """Its first bytes say what it is."""
    text = b'{"id": "a", "prompt": "x"}\n{"id": "b", "prompt": "y"}\n'
    for name in ("data.jsonl.gz", "data.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(text))

        assert [item.id for item in load_jsonl(tmp_path / name)] == ["a", "b"]


def test_a_packed_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    """The rest of the data is missing, and that is not a bad line to skip."""
    lines = "".join(f'{{"id": "{number * 7919 % 100_003}", "prompt": "x"}}\n' for number in range(5_000)).encode()
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(gzip.compress(lines)[:10_000])

    with pytest.raises(ConfigurationError, match=r"data\.jsonl\.gz is damaged after line \d{3,}"):
        load_jsonl(file, on_bad_line="skip")


def test_bad_lines_are_skipped_and_counted_on_request(tmp_path: Path) -> None:
    """A list that also says what is not in it."""
    file = write(tmp_path / "data.jsonl", "{", '{"id": "a", "prompt": "x"}', "[]", '{"id": "b"}')
    loaded = load_jsonl(file, on_bad_line="skip")

    assert loaded == [PromptScenario(id="a", messages="x")]
    assert (loaded.skipped, loaded.merged) == (3, 0)
    assert [problem.removeprefix(f"{file}, ") for problem in loaded.problems] == [
        "line 1: no JSON: Expecting property name enclosed in double quotes at column 2",
        "line 3: a list is no object with fields",
        "line 4: field 'prompt' is missing",
    ]


def test_all_bad_lines_are_counted_but_only_the_first_are_kept_in_words(tmp_path: Path) -> None:
    """A million of them would fill the memory."""
    file = write(tmp_path / "data.jsonl", *["{"] * 25, '{"id": "a", "prompt": "x"}')
    loaded = load_jsonl(file, on_bad_line="skip")

    assert (loaded.skipped, len(loaded.problems)) == (25, 20)


def test_a_file_of_bad_lines_is_refused(tmp_path: Path) -> None:
    """Nothing is left of it, most likely because a field has another name."""
    file = write(tmp_path / "data.jsonl", '{"question": "x"}', '{"question": "y"}')

    with pytest.raises(
        ConfigurationError, match=r"none of the 2 rows is a scenario; the first: .*line 1: .*prompt_key"
    ):
        load_jsonl(file, on_bad_line="skip")


def test_a_row_that_repeats_another_is_merged_on_request(tmp_path: Path) -> None:
    """Id and content are the same task; without an id, the content is the id."""
    rows = ['{"id": "a", "prompt": "x"}', '{"prompt": "y"}', '{"prompt": "x", "id": "a"}', '{"prompt": "y"}']
    loaded = load_jsonl(write(tmp_path / "data.jsonl", *rows), on_duplicate="merge")

    assert loaded == load_jsonl(write(tmp_path / "data.jsonl", *rows[:2]))
    assert loaded.merged == 2


@pytest.mark.parametrize("id_key", ["id", "key"])
def test_a_row_without_an_id_that_repeats_another_is_said_to(tmp_path: Path, id_key: str) -> None:
    """The user never saw the hash that is its id."""
    row = '{"prompt": "x"}' if id_key == "id" else '{"prompt": "x", "key": null}'
    file = write(tmp_path / "data.jsonl", row, '{"id": "a", "key": "a", "prompt": "x"}', row)

    with pytest.raises(ConfigurationError, match=r"line 3: the same as .*line 1, and neither has an id .*id_key="):
        load_jsonl(file, id_key=id_key)


def test_two_tasks_under_one_id_are_never_merged(tmp_path: Path) -> None:
    """One of them would be lost."""
    file = write(tmp_path / "data.jsonl", '{"id": "a", "prompt": "x"}', '{"id": "a", "prompt": "y"}')

    with pytest.raises(
        ConfigurationError, match=r"line 2: field 'id': 'a' is the id of .*line 1 too, and the two differ"
    ):
        load_jsonl(file, on_bad_line="skip", on_duplicate="merge")


@given(st.integers(0, 8), st.none() | st.integers(1, 8))
def test_start_and_limit_are_those_of_a_slice(
    tmp_path_factory: pytest.TempPathFactory, start: int, limit: int | None
) -> None:
    """Rows are counted, not lines: what is before and after the slice is not even looked at."""
    file = tmp_path_factory.mktemp("rows") / "data.jsonl"
    rows = [f'{{"id": "{number}", "prompt": "x"}}' for number in range(6)]
    end = 6 if limit is None else min(6, start + limit)
    bad = [row if start <= number < end else "{" for number, row in enumerate(rows)]

    assert [item.id for item in load_jsonl(write(file, "", *bad, ""), start=start, limit=limit)] == [
        str(number) for number in range(start, end)
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start": -1}, r"start=-1 is no whole number of 0 or more"),
        ({"start": True}, r"start=True is no whole number"),
        ({"limit": 0}, r"limit=0 is no positive whole number"),
        ({"on_bad_line": "warn"}, r"on_bad_line='warn' is no choice .*'raise' or 'skip'"),
        ({"on_duplicate": "skip"}, r"on_duplicate='skip' is no choice .*'raise' or 'merge'"),
    ],
)
def test_arguments_that_cannot_work_are_refused(tmp_path: Path, arguments, words: str) -> None:
    """A misspelt choice would be the other one."""
    with pytest.raises(ConfigurationError, match=words):
        load_jsonl(write(tmp_path / "data.jsonl", ""), **arguments)


def test_an_error_of_a_users_validator_says_which_row(tmp_path: Path) -> None:
    """It is the user's own, and raised as it is."""

    class Broken(Scenario):
        @model_validator(mode="before")
        @classmethod
        def _check(cls, value):
            raise KeyError("oops")

    with pytest.raises(KeyError) as caught:
        load_jsonl(write(tmp_path / "data.jsonl", '{"id": "a"}'), Broken)
    assert caught.value.__notes__ == [f"{tmp_path / 'data.jsonl'}, line 1: a validator of Broken raised this"]


def test_loaded_scenarios_survive_pickling(tmp_path: Path) -> None:
    """With their counts, for a worker of another process."""
    loaded = load_jsonl(write(tmp_path / "data.jsonl", '{"id": "a", "prompt": "x"}', "{"), on_bad_line="skip")
    copy = pickle.loads(pickle.dumps(loaded))

    assert (type(copy), copy, copy.skipped, copy.problems) == (LoadedScenarios, loaded, 1, loaded.problems)
