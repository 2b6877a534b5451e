"""Leaks between training data and validation."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, find_leaks, leaks


class Game(PromptScenario):
    seed: int


class Board(Scenario):
    cells: str
    turn: int = 0


@dataclass(frozen=True)
class Own:
    id: str
    size: int


def leak(one: str, other: str, match="normalised") -> bool:
    train, validation = PromptScenario(id="a", messages=one), PromptScenario(id="b", messages=other)
    return bool(find_leaks([train], [validation], match=match))


def test_equal_ids_and_equal_messages_are_leaks() -> None:
    """For the sets that a user split himself; what beside the prompt differs makes no other task."""
    train = [PromptScenario(id="a", messages="x"), PromptScenario(id="b", messages="y", label=1), Scenario(id="c")]
    validation = [PromptScenario(id="d", messages="y", label=2), Scenario(id="c"), PromptScenario(id="e", messages="z")]

    assert find_leaks(train, validation) == (("b", "d"), ("c", "c"))


def test_a_type_of_ones_own_is_compared_by_its_content() -> None:
    """All of it but the id, and by the type."""
    train = [Board(id="a", cells="xo", turn=1), Own("b", 3), Board(id="c", cells="")]
    validation = [Board(id="d", cells="xo", turn=1), Own("e", 3), Board(id="f", cells="xo"), Own("g", 4)]

    assert find_leaks(train, validation) == (("a", "d"), ("b", "e"))


def test_what_a_subclass_adds_to_the_prompt_is_part_of_the_task() -> None:
    """One prompt for all games, and a seed that tells them apart."""
    train, validation = Game(id="a", messages="Play.", seed=1), Game(id="b", messages="play", seed=1)

    assert find_leaks([train], [validation], match="normalised") == (("a", "b"),)
    assert find_leaks([train], [Game(id="b", messages="Play.", seed=2)]) == ()


def test_scenarios_that_are_an_id_are_told_apart_by_it() -> None:
    """Their environment draws everything else from it; of an object of another kind nothing more is known."""
    assert find_leaks([Scenario(id="seed-1")], [Scenario(id="seed-2")]) == ()
    assert find_leaks([SimpleNamespace(id="1", x=1)], [SimpleNamespace(id="2", x=1)]) == ()
    assert find_leaks([SimpleNamespace(id="1", messages=["hi"])], [SimpleNamespace(id="2", messages=["hi"])]) == (
        ("1", "2"),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 2 + 3?", "what is  2+3"),
        ("What is 2 + 3?", "\u201cWhat is 2 + 3?\u201d\n"),
        ("Name the capital of France.", "Name the capital of France!"),
        ("Name it: now, please", "name it now please"),
        ("ﬁnd the \uff21", "find the a"),
        ("cafe\u0301", "CAFÉ"),
        ("Straße", "STRASSE"),
        ("What is x²?", "what is x^2"),
        ("\ufeffco\u00adoperate\u200b", "cooperate"),
    ],
)
def test_normalising_finds_what_reads_the_same(one: str, other: str) -> None:
    """A data set that was copied out of another one rarely stays as it was."""
    assert not leak(one, other, "exact")
    assert leak(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7*3", "7/3"),
        ("7-3", "73"),
        ("1.5", "15"),
        ("12:30", "1230"),
        ("3!", "3"),
        ("a != b", "a = b"),
        ("5²", "52"),
        ("x₁", "x1"),
        ("1 23", "12 3"),
        ("a[1]", "a(1)"),
        ("?!", "..."),
    ],
)
def test_normalising_keeps_apart_what_is_another_task(one: str, other: str) -> None:
    """Refusing good data is as bad as missing a leak: digits, operators and brackets count."""
    assert not leak(one, other)


@given(st.text(min_size=1), st.sampled_from(["", " ", "\t", "\n"]))
@example("\u00ad", " ")
def test_normalising_does_not_see_case_and_space_around(text: str, space: str) -> None:
    """Whatever the text is."""
    assert leak(text, space + text + space)
    assert leak(text.casefold(), text.casefold().upper().casefold())


# Letters that normalising changes, and what it takes away between them.
AWKWARD = "aAbB1\u00b2\u1d43\u2081\uff21\ufb01e\u00e9\u00c9\u0301\u200b\u00ad'\u2019!?.\u3002_^- \n\u00dfS\u017f\u0130\u304b\uff9e\u304c"


@given(st.lists(st.text(AWKWARD, min_size=1, max_size=3), max_size=30), st.sampled_from(["exact", "normalised"]))
def test_no_leak_is_missed_for_being_looked_for_quickly(texts: list[str], match: str) -> None:
    """Most scenarios are told apart before their content is made: what comes out is as if all of it had been."""
    sides = [[PromptScenario(id=f"{side}{n}", messages=text) for n, text in enumerate(texts)] for side in "ab"]
    contents = [[leaks._content(scenario, match) for scenario in side] for side in sides]

    assert find_leaks(*sides, match=match) == tuple(
        (sides[0][contents[0].index(content)].id, scenario.id)
        for content, scenario in zip(contents[1], sides[1], strict=True)
    )


@given(st.text(AWKWARD, min_size=1, max_size=4), st.text(AWKWARD, min_size=1, max_size=4))
def test_what_reads_the_same_has_the_same_letters(one: str, other: str) -> None:
    """They are what is looked at first."""
    if leaks._normalised(one) == leaks._normalised(other):
        assert leaks._letters(one) == leaks._letters(other)


def test_only_the_texts_of_messages_are_normalised() -> None:
    """A picture is the same or not, and the cells of a board are no prose."""
    picture = {"type": "image_url", "image_url": {"url": "data:A"}}
    other = {"type": "image_url", "image_url": {"url": "data:a"}}
    text = {"type": "text", "text": "What is it?"}
    train = [PromptScenario(id="a", messages=[{"role": "user", "content": [text, picture]}])]

    def against(*content) -> bool:
        return bool(
            find_leaks(
                train,
                [PromptScenario(id="b", messages=[{"role": "user", "content": list(content)}])],
                match="normalised",
            )
        )

    assert against({"type": "text", "text": "what is it"}, picture)
    assert not against(text, other)
    assert find_leaks([Board(id="a", cells="xO")], [Board(id="b", cells="XO")], match="normalised") == ()


def test_a_text_is_the_same_as_a_block_of_it() -> None:
    """Two ways to write one message."""
    block = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]

    assert find_leaks(
        [PromptScenario(id="a", messages="Hi!")], [PromptScenario(id="b", messages=block)], match="normalised"
    ) == (("a", "b"),)


def test_a_way_to_compare_that_there_is_not_is_refused() -> None:
    """It would be taken for the other."""
    with pytest.raises(ConfigurationError, match=r"match='fuzzy' is no way to compare .*'exact' or 'normalised'"):
        find_leaks([], [], match="fuzzy")  # type: ignore[arg-type]
