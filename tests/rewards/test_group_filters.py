"""Which groups are worth training on."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.rewards import DropZeroVariance, FilterResult, GroupFilter

reward_lists = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, math.nan]), max_size=4), max_size=5)


def make_group(rewards: list[float]) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([art.Trajectory(reward=reward) for reward in rewards])


@dataclass(frozen=True)
class DropSmall(GroupFilter):
    """Drops groups with fewer members."""

    members: int

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        return f"{len(group)} members" if len(group) < self.members else None


@pytest.mark.parametrize(
    ("rewards", "reason"),
    [
        ([0.0, 1.0], None),
        ([0.0, 0.0, 1e-6], None),
        ([], "no member was scored"),
        ([0.7], "one member has no sibling to differ from"),
        ([1, 1, 1, 1], "all 4 rewards are 1"),
        ([0.1 + 0.2, 0.3], "all 2 rewards are 0.3"),
        ([0.0, math.nan, 1.0], "the reward of member 1 is nan"),
        ([math.inf, 0.0], "the reward of member 0 is inf"),
    ],
)
def test_a_group_without_variance_teaches_nothing(rewards: list[float], reason: str | None) -> None:
    """All its advantages are 0, or NaN; a group of one has no standard deviation."""
    assert DropZeroVariance().reason(make_group(rewards)) == reason


@given(reward_lists)
def test_what_is_kept_and_what_is_dropped_are_the_input(rewards: list[list[float]]) -> None:
    """In its order, by identity, unchanged."""
    groups = [make_group(each) for each in rewards]
    before = copy.deepcopy(groups)
    result = (DropZeroVariance() | DropSmall(3)).apply(groups)
    order = {id(group): number for number, group in enumerate(groups)}
    kept = [order[id(group)] for group in result.kept]
    dropped = [order[id(group)] for group, _ in result.dropped]

    assert sorted(kept + dropped) == list(range(len(groups)))
    assert (kept, dropped) == (sorted(kept), sorted(dropped))
    assert all(reason for _, reason in result.dropped)
    assert repr(groups) == repr(before)


def test_the_first_filter_that_drops_gives_the_reason() -> None:
    """One group is counted once."""
    group = make_group([1.0, 1.0])

    assert (DropSmall(3) | DropZeroVariance()).apply([group]) == FilterResult(kept=[], dropped=[(group, "2 members")])
    assert (DropZeroVariance() | DropSmall(3)).apply([group]).dropped == [(group, "all 2 rewards are 1")]


def test_joining_is_flat_and_reads_as_written() -> None:
    """The plan prints it."""
    joined = DropZeroVariance() | (DropSmall(members=2) | DropZeroVariance())

    assert repr(joined) == "DropZeroVariance() | DropSmall(members=2)"
    assert joined == (DropZeroVariance() | DropSmall(2)) | DropSmall(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        DropZeroVariance() | None


def test_what_each_filter_dropped_is_counted_under_its_name() -> None:
    """The log counts by filter: a reason with numbers in it would be another one each time."""
    result = (DropSmall(2) | DropZeroVariance()).apply(map(make_group, ([0.5], [1, 1], [0, 0, 0], [0, 1], [])))

    assert (result.counts, len(result.kept)) == ({"small": 2, "zero_variance": 2}, 1)


@dataclass(frozen=True)
class Told(GroupFilter):
    """Answers what it is told to, or raises it."""

    answer: object

    def reason(self, group: art.TrajectoryGroup) -> str | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [True, False, 0, ""])
def test_a_reason_that_is_none_is_refused(answer) -> None:
    """A filter that returns a bool would drop every group, for the reason "False"."""
    for each in (Told(answer), DropZeroVariance() | Told(answer)):
        with pytest.raises(
            ConfigurationError, match=rf"the filter Told\(answer={answer!r}\) gave the reason {answer!r}"
        ):
            each.apply([make_group([0.0, 1.0])])


def test_a_filter_that_fails_is_named() -> None:
    """Of several that are joined, one is to be mended."""
    with pytest.raises(KeyError) as caught:
        (DropZeroVariance() | Told(KeyError("gold"))).apply([make_group([0.0, 1.0])])

    assert caught.value.__notes__ == ["raised by the filter Told(answer=KeyError('gold'))"]
