"""Which groups have lost too much to be trained on."""

from __future__ import annotations

import math
from typing import Any

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import ConfigurationError
from artkit.rewards import (
    DropFailures,
    DropZeroVariance,
    MinMembers,
    ProgrammaticReward,
    lost_members,
    note_lost,
)

ENVIRONMENT = FailureRecord(kind=FailureKind.ENVIRONMENT, type="OSError", message="gone")


def make_group(*members: art.Trajectory, lost: Any = ()) -> art.TrajectoryGroup:
    group = art.TrajectoryGroup(list(members))
    for kind in lost:
        note_lost(group, FailureKind(kind))
    return group


@pytest.mark.parametrize(
    ("kinds", "group", "reason"),
    [
        ({"limit"}, make_group(Episode()), None),
        ({"limit"}, make_group(Episode(metadata={"failure_kind": None})), None),
        ({"limit"}, make_group(Episode(metadata={"failure_kind": "limit"})), "failures: 1 of kind limit"),
        ({"limit"}, make_group(art.Trajectory(metadata={"failure_kind": "limit"})), "failures: 1 of kind limit"),
        ({"environment"}, make_group(Episode(failure=ENVIRONMENT)), "failures: 1 of kind environment"),
        ({"reward"}, make_group(Episode(failure=ENVIRONMENT)), None),
        ({"infrastructure"}, make_group(Episode(), lost=["infrastructure"] * 2), "failures: 2 of kind infrastructure"),
        ({"reward"}, make_group(Episode(), lost=["infrastructure"]), None),
        (
            {"reward", "environment"},
            make_group(Episode(failure=ENVIRONMENT), lost=["environment", "reward"]),
            "failures: 2 of kind environment, 1 of kind reward",
        ),
        ({"limit"}, make_group(Episode(metadata={"failure_kind": "another's word"})), None),
    ],
)
def test_a_group_with_a_failure_of_a_given_kind_is_dropped(kinds, group, reason) -> None:
    """Whether the member stayed or left: leaving out the ones that failed flatters the rest."""
    assert DropFailures(kinds).reason(group) == reason


async def test_a_member_that_could_not_be_scored_is_remembered_by_its_group() -> None:
    """The exceptions do not say whose failure they were."""
    group = make_group(Episode(member=0), Episode(member=1), Episode(member=2))
    await ProgrammaticReward(lambda episode: None if episode.member else 1.0)(group)

    assert lost_members(group) == {FailureKind.REWARD: 2}
    assert DropFailures({"reward"}).reason(group) == "failures: 2 of kind reward"


@pytest.mark.parametrize(
    ("size", "reason"), [(0, "0 of at least 2 members"), (1, "1 of at least 2 members"), (2, None), (3, None)]
)
def test_a_group_with_too_few_members_is_dropped(size, reason) -> None:
    """The mean of one is no baseline."""
    assert MinMembers(2).reason(make_group(*[Episode() for _ in range(size)])) == reason


members = st.builds(
    lambda reward, kind: Episode(reward=reward, metadata={"failure_kind": kind}),
    st.sampled_from([0.0, 1.0, math.nan]),
    st.sampled_from([None, "limit", "environment"]),
)
groups = st.builds(
    lambda members, lost: make_group(*members, lost=lost),
    st.lists(members, max_size=4),
    st.lists(st.sampled_from(["reward", "infrastructure"]), max_size=2),
)


@given(
    st.lists(groups, max_size=6),
    st.permutations([DropZeroVariance(), DropFailures({"limit", "reward"}), MinMembers(2)]),
)
def test_one_by_one_or_all_at_once_keeps_the_same(groups: Any, filters: Any) -> None:
    """In any order; and every group is kept or dropped once, with a reason."""
    one, two, three = filters
    joined = (one | two | three).apply(groups)
    left, dropped = groups, []
    for each in filters:
        result = each.apply(left)
        left, dropped = result.kept, dropped + result.dropped

    assert [id(group) for group in left] == [id(group) for group in joined.kept]
    assert {id(group): reason for group, reason in dropped} == {id(group): reason for group, reason in joined.dropped}
    assert len(joined.kept) + len(joined.dropped) == len(groups)


def test_filters_read_as_they_were_written() -> None:
    """The plan prints them, in the same words in every process."""
    joined = DropFailures(["reward", "limit"]) | MinMembers(3) | DropFailures({FailureKind.LIMIT, FailureKind.REWARD})

    assert repr(joined) == "DropFailures({'limit', 'reward'}) | MinMembers(3)"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: DropFailures("limit"), r"kinds='limit' is not a set of kinds .*write \{'limit'\}"),
        (lambda: DropFailures(set()), "is empty"),
        (lambda: DropFailures({"tool"}), "kinds='tool' is no kind of failure that a group can have"),
        (lambda: DropFailures({"fatal"}), "kinds='fatal' is no kind"),
        (lambda: DropFailures({"limits"}), "choose from limit, environment, infrastructure, reward"),
        (lambda: MinMembers(0), "count=0 is no positive int"),
        (lambda: MinMembers(2.0), "count=2.0 is no positive int"),
        (lambda: MinMembers(True), "count=True is no positive int"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_made(make, problem: str) -> None:
    """A filter that never drops anything would go unnoticed."""
    with pytest.raises(ConfigurationError, match=problem):
        make()
