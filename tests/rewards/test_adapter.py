"""The contract of every reward adapter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import art
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import ConfigurationError, JudgeError, OutageError, RewardError
from artkit.rewards import RewardAdapter, Score
from artkit.rewards.reading import Scored


class Fixed(RewardAdapter):
    """Answers what it is told to."""

    def __init__(self, answers: Any, on_error: Any = "drop_member") -> None:
        self.answers = answers
        self.on_error = on_error

    async def score(self, group: art.TrajectoryGroup) -> Any:
        if isinstance(self.answers, BaseException):
            raise self.answers
        return self.answers


def make_group(size: int, make: Callable[..., art.Trajectory] = Episode) -> art.TrajectoryGroup:
    """A group with something of everything that must survive."""
    members = [make(reward=0.125, metrics={"turns": number}, logs=["before"]) for number in range(size)]
    group = art.TrajectoryGroup(
        members, metadata={"scenario_id": "sum-3"}, metrics={"difficulty": 2}, logs=["made"], exceptions=[]
    )
    group.exceptions.append(art.trajectories.PydanticException(type="OSError", message="lost", traceback=""))
    return group


def state(group: art.TrajectoryGroup) -> Any:
    return (
        [(id(t), t.reward, dict(t.metrics), dict(t.metadata), list(t.logs)) for t in group.trajectories],
        list(group.exceptions),
        dict(group.metadata),
        dict(group.metrics),
        list(group.logs),
    )


def causes(group: art.TrajectoryGroup) -> list[str]:
    """What scoring added to the exceptions."""
    return [exception.message for exception in group.exceptions[1:]]


@pytest.mark.parametrize("make", [Episode, art.Trajectory])
async def test_scores_are_written_and_nothing_of_the_group_is_lost(make) -> None:
    """RULER's own function drops exceptions, metadata, metrics and logs."""
    group = make_group(3, make)
    members = list(group.trajectories)
    scored = await Fixed([0.5, Score(1, metrics={"exact": True, "f1": 0.75}, explanation="as asked"), True])(group)

    assert scored is group
    assert all(kept is member for kept, member in zip(group.trajectories, members, strict=True))
    assert [member.reward for member in members] == [0.5, 1.0, 1.0]
    assert [type(member.reward) for member in members] == [float] * 3
    assert [member.metrics for member in members] == [
        {"turns": 0},
        {"turns": 1, "exact": True, "f1": 0.75},
        {"turns": 2},
    ]
    assert [member.logs for member in members] == [["before"], ["before", "Fixed: as asked"], ["before"]]
    assert [exception.message for exception in group.exceptions] == ["lost"]
    assert (group.metadata, group.metrics, group.logs) == ({"scenario_id": "sum-3"}, {"difficulty": 2}, ["made"])


@pytest.mark.parametrize("on_error", ["raise", "drop_member", "drop_group"])
@pytest.mark.parametrize(
    "answers", [[], [0.5], [0.5] * 3, None, "ab", {"a": 1, "b": 2}, 0.5, (x for x in (1, 2)), np.array(1.0)]
)
async def test_a_wrong_count_always_raises_with_nothing_changed(answers, on_error) -> None:
    """Scores that can't be matched to members must not be."""
    group = make_group(2)
    before = state(group)

    with pytest.raises(RewardError, match=r"Fixed: scenario 'sum-3': score.* returned .*one answer for each"):
        await Fixed(answers, on_error)(group)
    assert state(group) == before


BAD = [math.nan, math.inf, -math.inf, "0.5", [0.5], 1j, 10**400, np.float64("nan"), np.array([1.0, 2.0])]


@pytest.mark.parametrize("bad", BAD, ids=repr)
async def test_a_bad_value_costs_its_member_and_no_sibling(bad) -> None:
    """One NaN in a group makes every advantage NaN; 0.0 would teach that the episode was bad."""
    group = make_group(4)
    first, second, third, fourth = group.trajectories
    await Fixed([1.0, bad, 0.0, Score(0.5)])(group)

    assert [id(member) for member in group.trajectories] == [id(first), id(third), id(fourth)]
    assert [member.reward for member in group.trajectories] == [1.0, 0.0, 0.5]
    assert len(causes(group)) == 1
    assert causes(group)[0].startswith("Fixed: scenario 'sum-3', member 1: reward ")
    assert (second.reward, second.failure.kind, second.metadata["failure_kind"]) == (
        0.125,
        FailureKind.REWARD,
        "reward",
    )
    assert second.failure.message == causes(group)[0]


@pytest.mark.parametrize("bad", BAD, ids=repr)
async def test_a_bad_value_is_raised_with_nothing_changed_when_asked(bad) -> None:
    """For those who would rather stop."""
    group = make_group(2)
    before = state(group)

    with pytest.raises(RewardError, match=r"Fixed: scenario 'sum-3', member 1: reward .* is no"):
        await Fixed([1.0, bad], "raise")(group)
    assert state(group) == before


async def test_a_bad_value_costs_its_group_when_asked() -> None:
    """For those to whom half a group is none; every member has its cause."""
    group = make_group(3)
    await Fixed([1.0, math.nan, 0.0], "drop_group")(group)

    assert group.trajectories == []
    assert ["is not finite" in cause for cause in causes(group)] == [False, True, False]
    assert causes(group)[0].startswith("left with its group, for member 1 could not be scored")


@pytest.mark.parametrize("on_error", ["raise", "drop_member", "drop_group"])
@pytest.mark.parametrize("answer", [None, Score(None)])
async def test_none_leaves_its_member_unscored(answer, on_error) -> None:
    """The adapter said so itself, so it is no error."""
    group = make_group(3)
    await Fixed([1.0, answer, 0.0], on_error)(group)

    assert [member.reward for member in group.trajectories] == [1.0, 0.0]
    assert causes(group)[0].startswith("Fixed: scenario 'sum-3', member 1: not scored: the adapter returned None")


async def test_an_unscored_member_says_why() -> None:
    """In the words of the adapter."""
    group = make_group(1)
    await Fixed([Score(None, explanation="the judge refused")])(group)

    assert "member 0: not scored: the judge refused" in causes(group)[0]


async def test_a_plain_trajectory_leaves_its_group_too() -> None:
    """It has no `failure`, but its cause is in the group all the same."""
    group = make_group(2, art.Trajectory)
    await Fixed([None, 1.0])(group)

    assert [member.reward for member in group.trajectories] == [1.0]
    assert len(causes(group)) == 1


@pytest.mark.parametrize("on_error", ["drop_member", "drop_group"])
async def test_an_exception_of_the_adapter_leaves_all_members_unscored(on_error) -> None:
    """A judge that fails for good."""
    group = make_group(2)
    await Fixed(JudgeError("the judge is out", "ask later"), on_error)(group)

    assert group.trajectories == []
    assert causes(group) == ["the judge is out (hint: ask later)"] * 2


async def test_an_exception_of_the_adapter_is_raised_when_asked() -> None:
    """As it is, with nothing changed."""
    group = make_group(2)
    before = state(group)

    with pytest.raises(KeyError, match="gold"):
        await Fixed(KeyError("gold"), "raise")(group)
    assert state(group) == before


async def test_an_exception_in_a_members_place_costs_that_member() -> None:
    """Its own type and traceback are kept."""
    group = make_group(2)
    try:
        {}["gold"]
    except KeyError as error:
        raised = error
    await Fixed([raised, 0.5])(group)

    assert [member.reward for member in group.trajectories] == [0.5]
    assert [(exception.type, exception.message) for exception in group.exceptions[1:]] == [("KeyError", "'gold'")]
    assert "in test_an_exception_in_a_members_place_costs_that_member" in group.exceptions[1].traceback


async def test_whatever_gather_returns_in_a_members_place_costs_that_member() -> None:
    """A task that was cancelled comes back from `asyncio.gather` as a CancelledError, which is no `Exception`."""

    async def grade(number: int) -> float:
        if number == 1:
            raise asyncio.CancelledError("the pool was shut down")
        return 1.0

    class Gathering(RewardAdapter):
        async def score(self, group: art.TrajectoryGroup) -> Any:
            return await asyncio.gather(*map(grade, range(len(group.trajectories))), return_exceptions=True)

    group = make_group(3)
    await Gathering()(group)

    assert [member.reward for member in group.trajectories] == [1.0, 1.0]
    assert causes(group)[0].startswith("Gathering: scenario 'sum-3', member 1: scoring it ended in CancelledError(")


async def test_an_exception_that_members_share_is_left_as_it_is() -> None:
    """A constant of the user's module would collect the names of all whom it was ever about."""
    shared = KeyError("gold")
    groups = [make_group(2), make_group(2)]
    for group in groups:
        await Fixed([shared, shared])(group)

    assert not hasattr(shared, "__notes__")
    assert [group.exceptions[2].traceback.count("member ") for group in groups] == [1, 1]


@pytest.mark.parametrize("on_error", ["raise", "drop_member", "drop_group"])
async def test_a_score_that_is_not_async_is_told_as_that(on_error) -> None:
    """Python says that an object list can't be used in an await expression, which tells nobody what to do."""

    class Plain(RewardAdapter):
        def score(self, group: art.TrajectoryGroup) -> Any:
            return [1.0] * len(group.trajectories)

    reward, group = Plain(), make_group(2)
    reward.on_error = on_error
    before = state(group)

    with pytest.raises(RewardError, match=r"Plain: scenario 'sum-3': score\(\) returned .*make it `async def score"):
        await reward(group)
    assert state(group) == before


def test_an_adapter_needs_nothing_and_chooses_no_order_unless_it_says_so() -> None:
    """What the trainer, the doctor and a weighted sum ask of every adapter."""
    reward = Fixed([])

    assert (reward.required_environment, reward.metric_names, reward.reversed_order()) == ((), (), None)


async def test_an_exception_tells_whom_it_was_about() -> None:
    """A grader's own words seldom do; what is read is the traceback."""
    group = make_group(2)
    await Fixed([KeyError("gold"), 0.5])(group)
    failed = make_group(2)
    await Fixed(KeyError("gold"))(failed)

    assert group.exceptions[1].traceback.endswith("Fixed: scenario 'sum-3', member 0\n")
    assert failed.exceptions[1].traceback.endswith("Fixed: scenario 'sum-3'\n")


async def test_a_preview_says_what_would_be_written_and_writes_nothing() -> None:
    """For whoever combines or examines rewards."""
    group = make_group(3)
    before = state(group)
    scored, unscored, failed = await Fixed([Score(1, metrics={"exact": True}), None, math.nan]).preview(group)

    assert scored == Scored(reward=1.0, metrics={"exact": True})
    assert (unscored.is_error, failed.is_error) == (False, True)
    assert state(group) == before
    assert await Fixed(ValueError("not asked")).preview(make_group(0)) == []


async def test_a_member_that_is_scored_after_all_has_failed_no_more() -> None:
    """Lost episodes of a recording, scored again with the mended grader."""
    group = make_group(2)
    member = group.trajectories[0]
    await Fixed([None, 1.0])(group)
    again = art.TrajectoryGroup([member])
    await Fixed([0.5])(again)

    assert (again.trajectories, member.reward) == ([member], 0.5)
    assert (member.failure, member.metadata["failure_kind"]) == (None, None)


async def test_a_failure_of_another_kind_is_not_forgotten() -> None:
    """An episode that was cut short stays one, whatever it scores."""
    record = FailureRecord(kind=FailureKind.ENVIRONMENT, type="OSError", message="gone")
    member = Episode(failure=record, metadata={"failure_kind": "environment"})
    await Fixed([0.5])(art.TrajectoryGroup([member]))

    assert (member.failure, member.metadata["failure_kind"]) == (record, "environment")


@pytest.mark.parametrize("on_error", ["raise", "drop_member", "drop_group"])
@pytest.mark.parametrize("error", [ConfigurationError("no key", "set it"), OutageError("gone", "wait")])
async def test_an_error_that_scoring_again_cannot_cure_always_raises(error, on_error) -> None:
    """Wherever it comes from: every further group would be lost to it."""
    group = make_group(2)
    before = state(group)

    with pytest.raises(type(error)):
        await Fixed(error, on_error)(group)
    with pytest.raises(type(error)):
        await Fixed([0.5, error], on_error)(group)
    assert state(group) == before


async def test_an_empty_group_is_returned_untouched() -> None:
    """All its rollouts failed; there is nobody to ask about."""
    group = make_group(0)
    before = state(group)

    assert await Fixed([], "raise")(group) is group
    assert await Fixed(ValueError("not asked"), "raise")(group) is group
    assert state(group) == before


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        ({"x": None}, "metric 'x' None is no number"),
        ({"x": "1"}, "metric 'x' '1' is no number"),
        ({"x": math.inf}, "metric 'x' inf is not finite"),
        ({"reward": 1.0}, "a metric can't be called 'reward'"),
        ({"exceptions": 1}, "a metric can't be called 'exceptions'"),
        ({"exception_rate": 1}, "a metric can't be called 'exception_rate'"),
        ({3: 1.0}, "a metric can't be called 3"),
        ([("x", 1)], "are no mapping"),
    ],
)
async def test_a_metric_that_cannot_be_logged_is_refused(metrics, problem: str) -> None:
    """ART would blow up at log time, or average it into the reward."""
    with pytest.raises(RewardError, match=problem):
        await Fixed([Score(0.5, metrics=metrics)], "raise")(make_group(1))


async def test_metrics_may_differ_from_member_to_member() -> None:
    """What a member does not have is absent, not None."""
    group = art.TrajectoryGroup([Episode(), Episode(), Episode()])
    await Fixed([Score(1, metrics={"turns": 3}), Score(1, metrics={"turns": 4, "won": True}), Score(1)])(group)
    logged = [member.metrics for member in group.trajectories]
    values = {name: [metrics[name] for metrics in logged if name in metrics] for name in ("turns", "won")}

    assert logged == [{"turns": 3}, {"turns": 4, "won": True}, {}]
    assert {name: (np.mean(each), len(each)) for name, each in values.items()} == {"turns": (3.5, 2), "won": (1.0, 1)}


async def test_numbers_of_other_libraries_are_numbers() -> None:
    """Graders are written with NumPy."""
    values = [np.float32(0.5), np.int64(2), np.bool_(True), np.array(0.25), Fraction(1, 4)]
    group = make_group(5)
    await Fixed([Score(value, metrics={"same": value}) for value in values])(group)

    assert [member.reward for member in group.trajectories] == [0.5, 2.0, 1.0, 0.25, 0.25]
    assert [type(member.metrics["same"]) for member in group.trajectories] == [float, int, bool, float, float]


async def test_a_sequence_may_be_an_array() -> None:
    """One score per member is all that counts."""
    group = make_group(2)
    await Fixed(np.array([0.5, 0.75]))(group)

    assert [member.reward for member in group.trajectories] == [0.5, 0.75]


async def test_an_unknown_on_error_is_refused() -> None:
    """Before the judge is paid."""
    with pytest.raises(ConfigurationError, match=r"on_error='drop' is unknown .*'raise', 'drop_member', 'drop_group'"):
        await Fixed([1.0], "drop")(make_group(1))


async def test_the_scenario_is_named_from_the_members_where_the_group_has_no_name() -> None:
    """As in a plain ART loop."""
    named = art.TrajectoryGroup([art.Trajectory(metadata={"scenario_id": 4})])
    unnamed = art.TrajectoryGroup([art.Trajectory()])

    with pytest.raises(RewardError, match="scenario 4, member 0"):
        await Fixed([math.nan], "raise")(named)
    with pytest.raises(RewardError, match="scenario unknown, member 0"):
        await Fixed([math.nan], "raise")(unnamed)


async def test_an_adapter_is_an_after_each_of_art() -> None:
    """On either version."""

    async def rollout() -> art.Trajectory:
        return art.Trajectory()

    groups = await art.gather_trajectory_groups(
        [make() for make in [lambda: _gathered(rollout)] * 2], after_each=Fixed([0.5, None])
    )

    assert [[member.reward for member in group.trajectories] for group in groups] == [[0.5], [0.5]]


async def test_an_adapter_that_fails_as_an_after_each_of_art_costs_its_group_alone() -> None:
    """What raises there takes every other group with it, whatever `max_exceptions` allows."""

    class Failing(RewardAdapter):
        async def score(self, group: art.TrajectoryGroup) -> Any:
            if group.trajectories[0].metadata["name"] == "a":
                raise KeyError("gold")
            return [0.5] * len(group.trajectories)

    async def rollout(name: str) -> art.Trajectory:
        return art.Trajectory(metadata={"name": name})

    groups = await art.gather_trajectory_groups(
        [_gathered(lambda name=name: rollout(name)) for name in "ab"], after_each=Failing()
    )

    assert [[member.reward for member in group.trajectories] for group in groups] == [[], [0.5, 0.5]]
    assert [[error.type for error in group.exceptions] for group in groups] == [["KeyError"] * 2, []]


async def _gathered(rollout) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([await rollout(), await rollout()])


answers = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=2),
    st.builds(Score, st.one_of(st.none(), st.floats()), explanation=st.one_of(st.none(), st.just("because"))),
    st.builds(ValueError, st.just("grader")),
)


@given(st.lists(answers, min_size=1, max_size=6))
async def test_every_member_is_scored_or_left_with_a_cause(told: list[Any]) -> None:
    """Whatever an adapter answers, nothing is both, and nothing disappears."""
    group = make_group(len(told))
    members = list(group.trajectories)
    await Fixed(told)(group)
    kept = {id(member) for member in group.trajectories}

    assert len(kept) + len(causes(group)) == len(members)
    for member, answer in zip(members, told, strict=True):
        value = answer.value if isinstance(answer, Score) else answer
        is_good = isinstance(value, float | bool) and math.isfinite(value)
        assert (id(member) in kept) == is_good == (member.failure is None)
        assert member.reward == (value if is_good else 0.125)
