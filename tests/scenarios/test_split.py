"""Splitting scenarios."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, Scenario, split_scenarios


class Deal(Scenario):
    cards: str


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


def test_a_group_is_the_same_in_every_process() -> None:
    """The words for a set follow the seed of the hashes, and a resumed run would be validated on what it trained on."""
    sides = {
        subprocess.run(
            [sys.executable, "-c", SPLIT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(sides) == 1


SPLIT = """
from artkit.scenarios import Scenario, split_scenarios

items = [Scenario(id=str(number)) for number in range(60)]
groups = split_scenarios(items, validation=0.5, group_by=lambda item: {item.id[-1], "document", "page"})
print([item.id for item in groups.validation])
"""


def test_one_task_under_two_ids_is_refused_on_two_sides() -> None:
    """Its answer would be trained on and then asked for; together on one side it is harmless."""
    items = [PromptScenario(id=str(number), messages="What is 2 + 3?") for number in range(20)]

    for match in ("exact", "normalised"):
        with pytest.raises(
            ConfigurationError,
            match=r"tasks are on both sides: '\d+' in train is '\d+' in validation .*group_by=lambda s: s\.messages, or",
        ) as caught:
            split_scenarios(items, validation=0.5, match=match)
        assert "near-duplicates" not in str(caught.value)
    assert len(split_scenarios(items, validation=0.5, group_by=lambda s: s.messages).train) in (0, 20)


def test_the_way_out_that_is_named_is_one() -> None:
    """Also for a type of one's own, and where there are groups already."""
    items = [Deal(id=str(number), cards="AK") for number in range(20)]

    with pytest.raises(ConfigurationError, match=r"group_by=lambda s: dict\(s\) \| {'id': None}, or"):
        split_scenarios(items, validation=0.5)
    assert len(split_scenarios(items, validation=0.5, group_by=lambda s: dict(s) | {"id": None}).train) in (0, 20)
    with pytest.raises(ConfigurationError, match="keep them together with a group_by= that gives both the same, or"):
        split_scenarios(items, validation=0.5, group_by=lambda s: s.id)


def test_duplicates_and_near_duplicates_are_counted_apart() -> None:
    """What allows the ones does not help against the others."""
    items = [PromptScenario(id=str(n), messages="What is 2 + 3?" + " " * (n // 2)) for n in range(40)]

    with pytest.raises(ConfigurationError, match=r"tasks are on both sides, \d+ of them letter by letter: '\d+' in"):
        split_scenarios(items, validation=0.5)
    with pytest.raises(ConfigurationError, match=r"in another spelling: .*match=\"exact\" allows near-duplicates"):
        split_scenarios(items, validation=0.5, group_by=lambda s: s.messages)
    split_scenarios(items, validation=0.5, group_by=lambda s: s.messages, match="exact")


@pytest.mark.parametrize("name", ["group_by", "stratify_by"])
def test_the_name_of_a_column_is_no_function(name: str) -> None:
    """It is the first guess of who knows other libraries; what works is shown."""
    items = [PromptScenario(id="a", messages="x", metadata={"doc": 1})]

    with pytest.raises(
        ConfigurationError,
        match=rf"{name}='doc' is no function .*{name}=lambda s: s\.metadata\['doc'\], or s\.doc where",
    ):
        split_scenarios(items, **{name: "doc"})


def test_a_near_duplicate_on_two_sides_is_refused_unless_allowed() -> None:
    """Case and white space make no other task, but where they do the user may say so."""
    items = [PromptScenario(id=str(n), messages="What is 2 + 3?" + " " * n) for n in range(20)]

    with pytest.raises(ConfigurationError, match='match="exact" allows near-duplicates'):
        split_scenarios(items, validation=0.5)
    assert len(split_scenarios(items, validation=0.5, match="exact").train) < 20


kinds = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True, max_size=30)


@given(kinds, shares, st.integers(0, 3))
def test_every_kind_has_its_share_to_one_scenario(pairs: list[tuple[str, int]], share: float, seed: int) -> None:
    """A rare kind is neither missing from validation by chance nor all of it."""
    items = scenarios(f"{kind}{number}" for kind, number in pairs)
    split = split_scenarios(items, validation=share, seed=seed, stratify_by=lambda item: item.id[0])

    assert sorted(item.id for item in (*split.train, *split.validation)) == sorted(item.id for item in items)
    for kind in "abc":
        size, held_out = (sum(item.id[0] == kind for item in part) for part in (items, split.validation))
        assert abs(held_out - share * size) < 1


@given(kinds, shares)
def test_in_a_stratum_the_lowest_hashes_are_held_out(pairs: list[tuple[str, int]], share: float) -> None:
    """So a larger share only moves scenarios into validation, and the order of the data counts for nothing."""
    items = scenarios(f"{kind}{number}" for kind, number in pairs)
    ways = [{"validation": size, "stratify_by": lambda item: item.id[0]} for size in (share, share / 2)]
    more, less = (set(split_scenarios(items, **way).validation) for way in ways)

    assert less <= more
    assert set(split_scenarios(items[::-1], **ways[0]).validation) == more


def test_small_strata_have_their_share_together() -> None:
    """A tenth of four is none, but a hundred times none is not a tenth."""
    items = scenarios(str(number) for number in range(400))
    split = split_scenarios(items, validation=0.1, stratify_by=lambda item: int(item.id) // 4)

    assert 30 < len(split.validation) < 50


@given(kinds, shares)
def test_groups_of_one_kind_stay_together_and_keep_its_share(pairs: list[tuple[str, int]], share: float) -> None:
    """To one group; here the groups are of up to five."""
    items = scenarios(f"{kind}{number}" for kind, number in pairs)
    split = split_scenarios(
        items,
        validation=share,
        group_by=lambda item: item.id[0] + str(int(item.id[1:]) // 5),
        stratify_by=lambda item: item.id[0],
    )
    groups = [{item.id[0] + str(int(item.id[1:]) // 5) for item in side} for side in split]

    assert not groups[0] & groups[1]
    for kind in "abc":
        size, held_out = (sum(item.id[0] == kind for item in part) for part in (items, split.validation))
        assert abs(held_out - share * size) < 1 + 5


def test_a_group_of_two_kinds_is_refused() -> None:
    """It can't be on one side and have its share in both kinds."""
    with pytest.raises(ConfigurationError, match="the group 'all' is of two kinds: 'a' and 'b'"):
        split_scenarios(scenarios("ab"), group_by=lambda _: "all", stratify_by=lambda item: item.id)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_outside_of_0_and_1_is_refused(share: float) -> None:
    """It would leave one side empty."""
    with pytest.raises(ConfigurationError, match="is no share between 0 and 1"):
        split_scenarios([Scenario(id="a")], validation=share)


def test_what_has_no_id_is_refused() -> None:
    """There is nothing to hash."""
    with pytest.raises(ConfigurationError, match=r"scenarios\[0\] is a dict without an id"):
        split_scenarios([{"id": "a"}])
