"""Splitting scenarios."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, find_leaks, split_scenarios

names = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=30)
shares = st.floats(0.01, 0.99)


def scenarios(ids) -> list[Scenario]:
    return [Scenario(id=name) for name in ids]


@given(names, shares, st.integers(0, 3))
def test_a_split_holds_everything_once_and_in_order(ids: list[str], share: float, seed: int) -> None:
    """No scenario is lost, none is on both sides."""
    items = scenarios(ids)
    train, validation = split_scenarios(items, validation=share, seed=seed)

    assert [item for item in items if item in train] == list(train)
    assert [item for item in items if item in validation] == list(validation)
    assert sorted(item.id for item in (*train, *validation)) == sorted(ids)


@given(names, names, shares, st.integers(0, 3))
def test_more_data_moves_no_scenario(ids: list[str], more: list[str], share: float, seed: int) -> None:
    """What was trained on never becomes validation."""
    before = split_scenarios(scenarios(ids), validation=share, seed=seed)
    after = split_scenarios(scenarios(dict.fromkeys([*more, *ids])), validation=share, seed=seed)

    assert set(before.train) <= set(after.train)
    assert set(before.validation) <= set(after.validation)


@given(names, shares, shares)
def test_a_larger_share_only_moves_scenarios_into_validation(ids: list[str], one: float, other: float) -> None:
    """A set that was held out once stays held out."""
    less, more = sorted((one, other))

    assert set(split_scenarios(scenarios(ids), validation=less).validation) <= set(
        split_scenarios(scenarios(ids), validation=more).validation
    )


def test_the_share_is_met_on_average_and_seeds_draw_other_splits() -> None:
    """10,000 ids are within half a percent."""
    items = scenarios(map(str, range(10_000)))
    one, other = (split_scenarios(items, validation=0.1, seed=seed).validation for seed in (0, 1))

    assert 950 < len(one) < 1050
    assert 50 < len(set(one) & set(other)) < 150


@given(st.lists(st.integers(0, 999), unique=True, max_size=40), shares)
def test_a_group_stays_on_one_side(numbers: list[int], share: float) -> None:
    """Questions about one document leak each other's answers."""
    split = split_scenarios(scenarios(map(str, numbers)), validation=share, group_by=lambda item: item.id[0])

    assert not {item.id[0] for item in split.train} & {item.id[0] for item in split.validation}


def test_one_task_under_two_ids_is_refused_on_two_sides() -> None:
    """Its answer would be trained on and then asked for; together on one side it is harmless."""
    items = [PromptScenario(id=str(number), messages="What is 2 + 3?") for number in range(20)]

    with pytest.raises(ConfigurationError, match=r"tasks are on both sides: '\d+' in train is '\d+' in validation"):
        split_scenarios(items, validation=0.5)
    assert len(split_scenarios(items, validation=0.5, group_by=lambda item: item.messages[0]["content"]).train) in (
        0,
        20,
    )


def test_find_leaks_names_equal_ids_and_equal_messages() -> None:
    """For the sets that a user split himself."""
    train = [PromptScenario(id="a", messages="x"), PromptScenario(id="b", messages="y"), Scenario(id="c")]
    validation = [PromptScenario(id="d", messages="y"), Scenario(id="c"), PromptScenario(id="e", messages="z")]

    assert find_leaks(train, validation) == (("b", "d"), ("c", "c"))


def test_scenarios_of_another_type_are_told_apart_by_id() -> None:
    """Their environment may draw everything else from it."""
    assert find_leaks([Scenario(id="seed-1")], [Scenario(id="seed-2")]) == ()


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_outside_of_0_and_1_is_refused(share: float) -> None:
    """It would leave one side empty."""
    with pytest.raises(ConfigurationError, match="is no share between 0 and 1"):
        split_scenarios([Scenario(id="a")], validation=share)


def test_what_has_no_id_is_refused() -> None:
    """There is nothing to hash."""
    with pytest.raises(ConfigurationError, match=r"scenarios\[0\] is a dict without an id"):
        split_scenarios([{"id": "a"}])
