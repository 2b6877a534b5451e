"""Graders: how well a reply matches what was expected."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import Episode
from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import (
    ProgrammaticReward,
    Score,
    answer_text,
    choice_letter,
    exact_match,
    json_schema,
    last_boxed,
    last_number,
    normalised,
    normalised_match,
    number_match,
    regex_match,
    reply_text,
    scenario_label,
    token_f1,
)
from artkit.scenarios import PromptScenario, Scenario
from artkit.testing import Reply, choice, episode

texts = st.text(alphabet="ab the.,!-5é\n", max_size=30)


def played(reply: str, label: Any) -> Episode:
    return episode("?", choice(reply), scenario=PromptScenario(id="s", messages="?", label=label))


async def rewards_of(grader: Any, *trajectories: art.Trajectory) -> tuple[list[float], list[str]]:
    group = art.TrajectoryGroup(list(trajectories))
    await ProgrammaticReward(grader)(group)
    return [member.reward for member in group.trajectories], [cause.message for cause in group.exceptions]


# What is graded, and with what.


async def test_a_grader_compares_the_last_reply_with_the_scenarios_label() -> None:
    """The case that needs no setting."""
    rewards, causes = await rewards_of(exact_match(), played("5", "5"), played("6", "5"))

    assert (rewards, causes) == ([1.0, 0.0], [])


async def test_a_plain_trajectory_is_graded_with_the_label_in_its_metadata() -> None:
    """It has no scenario."""
    plain = art.Trajectory(messages_and_choices=[choice("5")], metadata={"label": "5"})

    assert await rewards_of(exact_match(), plain) == ([1.0], [])


async def test_where_to_look_can_be_told() -> None:
    """The answer of a tool environment is its outcome, and its scenario has fields of its own."""

    class Task(Scenario):
        city: str

    one = episode("?", choice("done"), scenario=Task(id="t", city="Paris"), outcome={"city": "Paris"})
    grader = exact_match(expected=lambda each: each.scenario.city, reply=lambda each: each.outcome["city"])

    assert await rewards_of(grader, one) == ([1.0], [])


@pytest.mark.parametrize("scenario", [None, Scenario(id="s")])
async def test_without_a_label_anywhere_the_run_stops(scenario) -> None:
    """Every other episode would lack it too."""
    with pytest.raises(ConfigurationError, match=r"an? Episode has neither scenario.label nor metadata"):
        await rewards_of(exact_match(), episode("?", choice("5"), scenario=scenario))


def test_a_scenario_read_from_a_recording_has_its_label() -> None:
    """It is a dict where the scenario object was not at hand."""
    assert scenario_label(Episode(scenario={"id": "s", "label": "5"})) == "5"


@pytest.mark.parametrize("label", [None, [], ()])
async def test_an_episode_without_an_expected_answer_is_unscored(label) -> None:
    """It is not wrong; nobody knows what is right."""
    rewards, causes = await rewards_of(exact_match(), played("5", label), played("5", "5"))

    assert rewards == [1.0]
    assert "there is nothing to grade the reply with" in causes[0]


async def test_an_episode_that_the_model_never_spoke_in_is_unscored() -> None:
    """It ended before the first turn; that is nobody's wrong answer."""
    silent = episode("?", scenario=PromptScenario(id="s", messages="?", label="5"))
    rewards, causes = await rewards_of(exact_match(), silent, played("", "5"))

    assert rewards == [0.0]
    assert "there is no reply to grade" in causes[0]


def test_of_several_right_answers_the_best_match_counts() -> None:
    """As SQuAD takes the maximum over its answers."""
    assert token_f1().grade("New York City", ["NYC", "New York"]) == 0.8
    assert exact_match().grade("b", ("a", "b")) == exact_match().grade("b", {"a", "b"}) == 1.0
    assert number_match().grade("5", [None, 5]) == 1.0


@pytest.mark.parametrize(
    ("reply", "expected"), [("None", [None]), ("nan", float("nan")), ("nan", [float("nan"), None]), ("", set())]
)
def test_what_stands_for_an_unknown_answer_is_none(reply, expected) -> None:
    """A table's empty cell would be right for a reply that says "nan"."""
    assert exact_match().grade(reply, expected).value is None


@pytest.mark.parametrize(
    ("turns", "reply", "answer"),
    [
        ((choice("4"), "no", choice(" 5 ")), " 5 ", "5"),
        ((choice("5"), {"role": "tool", "tool_call_id": "1", "content": "6"}), "5", "5"),
        ((choice("<think>4 or 5</think>\n5"),), "<think>4 or 5</think>\n5", "5"),
        ((choice("4 or 5</think> 5"),), "4 or 5</think> 5", "5"),
        ((choice("<think>4 or"),), "<think>4 or", ""),
        (({"role": "assistant", "content": [{"type": "text", "text": "5"}]},), "5", "5"),
        (({"role": "assistant", "content": None},), "", ""),
        (("?",), None, None),
    ],
)
def test_the_answer_is_the_last_reply_without_its_reasoning(turns, reply, answer) -> None:
    """What was thought aloud is not what was answered, and a thought that was cut off answers nothing."""
    trajectory = episode("?", *turns)

    assert (reply_text(trajectory), answer_text(trajectory)) == (reply, answer)


def test_a_turn_that_only_calls_a_tool_says_nothing() -> None:
    """Its reply is empty, not missing."""
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

    assert reply_text(episode("?", choice(Reply(None, tool_calls=[call])))) == ""


def test_a_grader_reads_as_it_was_written() -> None:
    """The plan prints the reward."""
    assert repr(ProgrammaticReward(choice_letter("AB"))) == (
        "ProgrammaticReward(choice_letter('AB'), timeout_s=60.0, on_error='drop_member')"
    )


# Exact, normalised, token F1.


@pytest.mark.parametrize(
    ("reply", "expected", "exact", "normal", "f1"),
    [
        ("Paris", "Paris", 1.0, 1.0, 1.0),
        (" Paris\n", "Paris", 1.0, 1.0, 1.0),
        ("paris.", "Paris", 0.0, 1.0, 1.0),
        ("The  Eiffel Tower", "Eiffel tower", 0.0, 1.0, 1.0),
        ("London", "Paris", 0.0, 0.0, 0.0),
        ("", "Paris", 0.0, 0.0, 0.0),
        ("the", "Paris", 0.0, 0.0, 0.0),
        ("in Paris France", "Paris", 0.0, 0.0, 0.5),
        ("Paris Paris", "Paris", 0.0, 0.0, 2 / 3),
        ("None", "Paris", 0.0, 0.0, 0.0),
        ("5", 5, 1.0, 1.0, 1.0),
    ],
)
def test_matches_of_texts(reply, expected, exact, normal, f1) -> None:
    """The definitions, by hand."""
    graded = [grader.grade(reply, expected) for grader in (exact_match(), normalised_match(), token_f1())]

    assert graded == pytest.approx([exact, normal, f1])


@pytest.mark.parametrize("grader", [normalised_match(), token_f1()], ids=repr)
@pytest.mark.parametrize("expected", ["A", "the", "-", "+ +", ""])
async def test_what_is_nothing_when_normalised_is_refused(grader, expected) -> None:
    """The choice "A" would match the reply "the"."""
    rewards, causes = await rewards_of(grader, played("the", expected))

    assert rewards == []
    assert "holds nothing but punctuation and articles" in causes[0]


@given(texts, texts)
def test_token_f1_is_symmetric_bounded_and_1_for_the_same_words(one: str, other: str) -> None:
    """Precision and recall change places."""
    if not (normalised(one) and normalised(other)):
        return
    there, back = token_f1().grade(one, other), token_f1().grade(other, one)

    assert there == back
    assert 0 <= there <= 1
    assert (there == 1) == (sorted(normalised(one).split()) == sorted(normalised(other).split()))


@given(texts)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    """So expected answers may be stored normalised."""
    assert normalised(normalised(text)) == normalised(text)


# Numbers.


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        ("so...5", 5.0),
        ("It is 5.", 5.0),
        ("2 + 3 = 5", 5.0),
        ("-5", -5.0),
        ("\u22125", -5.0),
        ("(-5)", -5.0),
        ("x=-5", -5.0),
        ("10-5", 5.0),
        ("-$1,234.50", -1234.5),
        ("1,234,567", 1234567.0),
        ("1,2345", 2345.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("50%", 50.0),
        ("3/4", 0.75),
        ("-3 / 4 cup", -0.75),
        ("3/0", None),
        ("v1.2.5", 1.2),
        ("", None),
        ("five", None),
        ("inf or nan", None),
    ],
)
def test_the_last_number_of_a_text(text, number) -> None:
    """What models write around it."""
    assert last_number(text) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_back(number: float) -> None:
    """Whatever way Python writes it."""
    assert last_number(f"The answer is {number!r}.") == number
    assert number_match().grade(f"{number!r}", number) == 1.0
    assert number_match().grade(f"{number!r}", str(number)) == 1.0


@pytest.mark.parametrize(
    ("settings", "reply", "expected", "score"),
    [
        ({}, "1,242", "1242", 1.0),
        ({}, "0.3", 0.1 + 0.2, 1.0),
        ({}, "1000001", 1000000, 0.0),
        ({}, "0.0000001", 0, 0.0),
        ({"absolute_tolerance": 1e-3}, "0.001", 0, 1.0),
        ({"relative_tolerance": 0.01}, "99", 100, 1.0),
        ({"relative_tolerance": 0.01}, "98.9", 100, 0.0),
        ({"relative_tolerance": 0.01, "absolute_tolerance": 2}, "98", 100, 1.0),
        ({}, "no idea", 5, 0.0),
        ({}, "9" * 400, 5, 0.0),
    ],
)
def test_a_number_counts_within_tolerance(settings, reply, expected, score) -> None:
    """|x - y| <= max(relative * |y|, absolute)."""
    assert number_match(**settings).grade(reply, expected) == score


@pytest.mark.parametrize("expected", ["about 5", "5 or 6", "", "nan", True, float("inf"), {}, 10**400])
def test_an_expected_value_that_is_no_number_is_an_error(expected) -> None:
    """Half of it would be taken for the whole."""
    with pytest.raises(RewardError, match="is no finite number"):
        number_match().grade("5", expected)


# Choices.


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("b.", "B"),
        ("**B**", "B"),
        ("B) Paris", "B"),
        ("B: Paris", "B"),
        ("The answer is (C).", "C"),
        ("The correct answer is **D**.", "D"),
        ("**Answer:** D", "D"),
        ("Answer: $C$", "C"),
        ("answer = C", "C"),
        ("The answer is option B", "B"),
        ("The correct option is B, because A) is wrong.", "B"),
        (r"So \boxed{B}.", "B"),
        (r"So \boxed{\text{B}}.", "B"),
        ("The answer is A. Wait: the answer is B.", "B"),
        ("Answer: B\nAnd C is wrong.", "B"),
        ("B) no. The answer is C", "C"),
        ("", None),
        ("A dog", None),
        ("I think B", None),
        ("the answer is a dog", None),
        ("The answer is not B", None),
        ("The answer is A or B", None),
        ("Answer: A/B", None),
        ("Answer: A, B, C", None),
        ("A) Paris B) London C) Rome D) Oslo", None),
        ("E", None),
        ("The answer is Apple", None),
    ],
)
def test_the_letter_that_a_reply_names(reply, letter) -> None:
    """One letter, or none: hedging must not pay."""
    assert [each for each in "ABCD" if choice_letter().grade(reply, each)] == ([letter] if letter else [])


@pytest.mark.parametrize("expected", ["E", "", "AB", 1, None])
def test_an_expected_choice_must_be_one(expected) -> None:
    """An index or a text would make every reply wrong."""
    with pytest.raises(RewardError, match="is none of the choices ABCD"):
        choice_letter().grade("A", expected)


# Regular expressions and JSON.


@pytest.mark.parametrize(
    ("pattern", "is_whole", "reply", "score"),
    [
        (r"\d+", False, "it is 5", 1.0),
        (r"\d+", True, "it is 5", 0.0),
        (r"\d+", True, "5", 1.0),
        (r"(?i)paris", False, "PARIS", 1.0),
        (r"(?s)<think>.*</think>\s*\S.*", True, "<think>a\nb</think>\nc", 1.0),
    ],
)
def test_a_pattern_is_found_or_not(pattern, is_whole, reply, score) -> None:
    """Anywhere, or over all of the reply."""
    assert regex_match(pattern, is_whole=is_whole).grade(reply, None) == score


async def test_the_pattern_sees_the_reasoning() -> None:
    """Its format is what such patterns check."""
    assert await rewards_of(regex_match("<think>"), played("<think>a</think>b", None)) == ([1.0], [])


async def test_a_pattern_that_takes_forever_costs_its_member_alone() -> None:
    """With Python's own `re` the whole program would stand still."""
    grader = regex_match(r"^(a|aa)+$", timeout_s=0.05)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    rewards, causes = await rewards_of(grader, played("a" * 200 + "!!", None), played("aa", None))
    ticking.cancel()

    assert rewards == [1.0]
    assert "took longer than timeout_s=0.05 on a reply of 202 characters" in causes[0]
    assert ticks > 1


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ('{"name": "Ada", "age": 36}', None),
        ('{"age": 36}', "$: 'name' is a required property"),
        ('{"name": "Ada", "age": "36"}', "$.age: '36' is not of type 'integer'"),
        ('{"name": "Ada", "age": -1}', "$.age: -1 is less than the minimum of 0"),
        ("Ada", "no JSON"),
        ("", "no JSON"),
        ('{"name": "Ada"', "no JSON"),
        ('```json\n{"name": "Ada"}\n```', "no JSON"),
        ('{"name": "Ada", "age": NaN}', "no JSON: NaN is no JSON"),
        ("[" * 100_000, "no JSON"),
        ("1" * 5_000, "no JSON"),
    ],
)
def test_a_reply_fits_a_schema_or_says_where_it_does_not(reply, problem) -> None:
    """The explanation is what a user reads in the log."""
    score = json_schema(PERSON).grade(reply, None)

    assert isinstance(score, Score)
    assert score.value == float(problem is None)
    assert (score.explanation or "").startswith(problem or "")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_an_empty_schema_takes_any_json(value: Any) -> None:
    """And nothing but JSON."""
    assert json_schema({}).grade(json.dumps(value), None) == Score(1.0)


def test_a_schema_is_never_fetched() -> None:
    """A reward that needs somebody's server is not the same tomorrow."""
    with pytest.raises(
        ConfigurationError, match=r"schema refers to 'http://127.0.0.1:9/schema', which it does not hold"
    ):
        json_schema({"$ref": "http://127.0.0.1:9/schema"})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: number_match(relative_tolerance=-1), "relative_tolerance=-1 is no tolerance"),
        (lambda: number_match(absolute_tolerance=float("nan")), "absolute_tolerance=nan is no tolerance"),
        (lambda: choice_letter("A1"), "choices='A1' are not distinct letters"),
        (lambda: choice_letter("ABA"), "choices='ABA' are not distinct letters"),
        (lambda: choice_letter(""), "choices='' are not distinct letters"),
        (lambda: regex_match("("), "is no regular expression"),
        (lambda: regex_match("a", timeout_s=0), "timeout_s=0 is no positive finite number"),
        (lambda: number_match(relative_tolerance="1"), "relative_tolerance='1' is no tolerance"),
        (lambda: json_schema({"$ref": "#/$defs/none"}), "which it does not hold .*nothing is fetched"),
        (lambda: json_schema({"properties": {"a": {"pattern": "("}}}), "no JSON schema|no regular expression"),
        (
            lambda: json_schema({"patternProperties": {"a": {}}, "unevaluatedProperties": False}),
            'use "additionalProperties"',
        ),
        (lambda: json_schema({"type": "thing"}), r"schema is no JSON schema: \$.type: 'thing' is not valid"),
        (lambda: json_schema("object"), "schema='object' is no mapping"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_made(make, problem: str) -> None:
    """Not after the first rollouts were paid for."""
    with pytest.raises(ConfigurationError, match=problem):
        make()


# Boxes; what needs math-verify is tested beside it.


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{5}", "5"),
        (r"\boxed{4}, no: \boxed{5}", "5"),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed {5}", "5"),
        (r"\fbox{5}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{4} and \boxed{5", None),
        ("boxed{5}", None),
        ("", None),
    ],
)
def test_the_last_box_of_a_text(text, box) -> None:
    """One that was cut off is none, and no earlier one stands in for it."""
    assert last_boxed(text) == box


RECURSIVE = {"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}}}


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        (RECURSIVE, "[" * 300 + "]" * 300),
        ({"type": "number", "multipleOf": 0.1}, "1e400"),
        ({"type": "number", "multipleOf": 0.1}, "1" + "0" * 400),
    ],
)
def test_a_reply_that_no_schema_can_check_is_wrong(schema, reply) -> None:
    """Leaving it unscored would let a model escape its 0."""
    score = json_schema(schema).grade(reply, None)

    assert (score.value, score.explanation.partition(":")[0]) == (0.0, "it cannot be checked")


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        ({"pattern": "^(a|aa)+$"}, "a" * 200 + "!"),
        ({"patternProperties": {"^(a|aa)+$": {}}}, {"a" * 200 + "!": 1}),
        ({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False}, {"a" * 200 + "!": 1}),
    ],
)
def test_a_pattern_of_a_schema_has_a_deadline(schema, reply) -> None:
    """With jsonschema's own, which uses `re`, the whole program would stand still."""
    with pytest.raises(RewardError, match="a pattern of the schema took too long"):
        json_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}).grade(
            json.dumps(reply), None
        )


@pytest.mark.parametrize(
    ("schema", "reply", "value"),
    [
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1}, 1.0),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": "1"}, 0.0),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1, "m": 1}, 0.0),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {"a": 1, "b": "x"}, 1.0),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {"a": 1, "b": 2}, 0.0),
        ({"pattern": "^a+$"}, "aa", 1.0),
        ({"pattern": "^a+$"}, "ab", 0.0),
        ({"pattern": "^a+$"}, 5, 1.0),
    ],
)
def test_patterns_mean_what_the_specification_says(schema, reply, value) -> None:
    """They are matched by another engine than jsonschema's own."""
    assert json_schema(schema).grade(json.dumps(reply), None).value == value


@pytest.mark.parametrize(
    "reply",
    [
        "answer: A" + "*" * 100_000,
        "answer:" + "*" * 100_000,
        "answer" + " " * 100_000,
        "answer" + "*" * 100_000 + ":" + "*" * 100_000,
        "answer is" + " " * 100_000 + "option",
    ],
    ids=lambda reply: reply[:12],
)
@pytest.mark.timeout(20)
def test_a_long_reply_is_read_once(reply) -> None:
    """The time was quadratic, and Python's `re` lets no other thread run meanwhile."""
    assert choice_letter().grade(reply, "B") == 0.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Result:\n- 5", 5.0), ("The answer - 5", 5.0), ("Total \u2013 42", 42.0), ("10 - 5", 5.0), ("10-5", 5.0),
        ("it is -5", -5.0), ("(-5)", -5.0), ("-$5", -5.0), ("x = \u22125", -5.0), ("- -5", -5.0),
    ],
)  # fmt: skip
def test_a_dash_is_a_sign_only_where_it_touches_the_number(text, number) -> None:
    """In a list or behind a word it is punctuation."""
    assert last_number(text) == number
