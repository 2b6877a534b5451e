"""Scoring finished groups with whatever fits ART's `after_each`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import art
import pytest

from artkit.episodes import Episode, FailureKind, FailurePolicy
from artkit.errors import RewardError
from artkit.rewards import ProgrammaticReward, RewardAdapter
from artkit.rollouts import GatherCounts, GatheredGroups, capture_partial, gather_groups
from artkit.scenarios import Scenario
from artkit.testing import choice

SCENARIOS = [Scenario(id="a"), Scenario(id="b")]


class OwnTrajectory(art.Trajectory):
    notes: str = ""


class Graded(RewardAdapter):
    """Scores member n with n, and what it is told not to score with None."""

    def __init__(self, unscored: Sequence[int] = ()) -> None:
        self._unscored = unscored

    async def score(self, group: art.TrajectoryGroup) -> list[Any]:
        return [None if n in self._unscored else float(n) for n in range(len(group.trajectories))]


async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
    return art.Trajectory(messages_and_choices=[{"role": "user", "content": "a"}, choice("b")], logs=["played"])


async def gathered(reward: Any, played: Any = rollout) -> GatheredGroups:
    return await gather_groups(played, None, SCENARIOS, rollouts_per_group=3, reward=reward)  # type: ignore[arg-type]


def rewards(result: GatheredGroups) -> list[list[float]]:
    return [[trajectory.reward for trajectory in group.trajectories] for group in result.groups]


async def test_each_group_is_scored_as_soon_as_it_is_complete() -> None:
    """The judge works while other groups are still playing."""
    result = await gathered(Graded())

    assert rewards(result) == [[0.0, 1.0, 2.0]] * 2


async def test_a_member_that_could_not_be_scored_is_lost_and_counted() -> None:
    """It is never reward 0, and its episode is still there to look at."""
    result = await gathered(Graded(unscored=[1]))

    assert rewards(result) == [[0.0, 2.0]] * 2
    assert [(one.member, one.failure.kind) for one in result.lost] == [(1, FailureKind.REWARD)] * 2  # type: ignore[attr-defined, union-attr]
    assert [len(group.exceptions) for group in result.groups] == [1, 1]
    assert result.counts == GatherCounts(started=6, grouped=4, lost={"reward": 2})


async def test_a_users_own_trajectory_that_could_not_be_scored_is_counted_too() -> None:
    """The counts add up whatever the members are."""

    async def played(model: Any, scenario: Scenario) -> art.Trajectory:
        return OwnTrajectory(messages_and_choices=[choice("b")])

    result = await gathered(Graded(unscored=[0, 2]), played)

    assert result.counts == GatherCounts(started=6, grouped=2, lost={"reward": 4})


async def _async(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    return _sync(group)


def _sync(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    for number, trajectory in enumerate(group.trajectories):
        trajectory.reward = float(number)
    return group


async def _rebuilt(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    """Build copies and a new group, as ART's own `ruler_score_group` does."""
    copies = [
        type(one)(messages_and_choices=one.messages_and_choices.copy(), metrics=dict(one.metrics), logs=list(one.logs))
        for one in group.trajectories
    ]
    for number, one in enumerate(copies):
        one.metrics["ruler_score"] = one.reward = float(number)
        one.log("RULER explanation: fine")
    return art.TrajectoryGroup(copies)


@pytest.mark.parametrize("reward", [_async, _sync, _rebuilt])
async def test_any_callable_that_returns_a_scored_group_will_do(reward: Any) -> None:
    """Users have these from ART; one that is not async fails there after every rollout was paid for."""
    assert rewards(await gathered(reward)) == [[0.0, 1.0, 2.0]] * 2


async def test_a_rebuilt_group_loses_nothing() -> None:
    """ART's RULER drops exceptions, metadata and every field of a subclass."""

    async def played(model: Any, scenario: Scenario) -> art.Trajectory:
        played.calls += 1  # type: ignore[attr-defined]
        if played.calls == 1:  # type: ignore[attr-defined]
            raise KeyError("door")
        return await rollout(model, scenario)

    played.calls = 0  # type: ignore[attr-defined]
    result = await gathered(_rebuilt, played)

    [group, _] = result.groups
    [first, second] = group.trajectories
    assert [error.type for error in group.exceptions] == ["KeyError"]
    assert group.metadata == {"scenario_id": "a", "lost_environment": 1}
    assert isinstance(second, Episode)
    assert (first.scenario, second.member) == (SCENARIOS[0], 2)  # type: ignore[attr-defined]
    assert (second.reward, second.metrics["ruler_score"], second.metadata["scenario_id"]) == (1.0, 1.0, "a")
    assert second.logs == ["played", "RULER explanation: fine"]


async def test_what_a_rebuilt_group_brings_is_taken_over() -> None:
    """A judge may log on the group."""

    async def reward(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        return art.TrajectoryGroup(group.trajectories, metadata={"judge": "x"}, metrics={"spread": 0.5}, logs=["hm"])

    [group, _] = (await gathered(reward)).groups

    assert group.metadata == {"scenario_id": "a", "judge": "x"}
    assert (group.metrics, group.logs, len(group.trajectories)) == ({"spread": 0.5}, ["hm"], 3)


def _new_group(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([group.trajectories[2], group.trajectories[0]])


def _in_place(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    del group.trajectories[1]
    return group


@pytest.mark.parametrize("reward", [_new_group, _in_place])
async def test_members_that_a_callable_leaves_out_are_lost_with_a_cause(reward: Any) -> None:
    """What disappears without a word makes `exception_rate` a lie."""
    result = await gathered(reward)

    assert [[one.member for one in group.trajectories] for group in result.groups] == [[0, 2]] * 2  # type: ignore[attr-defined]
    assert [[error.message for error in group.exceptions] for group in result.groups] == [
        ["the reward left this member out (hint: see its log for the reason)"]
    ] * 2
    assert result.counts == GatherCounts(started=6, grouped=4, lost={"reward": 2})


def _failing(group: art.TrajectoryGroup) -> Any:
    if group.metadata["scenario_id"] == "a":
        raise OSError("no judge")
    return _sync(group)


async def _cancelled(group: art.TrajectoryGroup) -> Any:
    if group.metadata["scenario_id"] == "a":
        raise asyncio.CancelledError
    return _sync(group)


def _none(group: art.TrajectoryGroup) -> Any:
    return None if group.metadata["scenario_id"] == "a" else _sync(group)


@pytest.mark.parametrize(
    ("reward", "cause"),
    [
        (_failing, "OSError: no judge"),
        (_none, "RewardError: the reward returned None"),
        (_cancelled, "RewardError: the reward raised a CancelledError"),
    ],
)
async def test_a_callable_that_cannot_score_a_group_costs_that_group_alone(reward: Any, cause: str) -> None:
    """One failure of the judge in ART's `after_each` loses every group of the gather."""
    result = await gathered(reward)

    assert rewards(result) == [[], [0.0, 1.0, 2.0]]
    assert [str(one.failure).startswith(cause) for one in result.lost] == [True] * 3  # type: ignore[attr-defined]
    assert [one.metadata["failure_kind"] for one in result.lost] == ["reward"] * 3
    assert len(result.groups[0].exceptions) == 3


@pytest.mark.parametrize(
    "answer",
    [
        lambda group: (group, 1.0),
        lambda group: [group],
        lambda group: 1.0,
        lambda group: art.TrajectoryGroup([Episode()]),
    ],
)
async def test_an_answer_that_is_no_scored_group_stops_the_gather(answer: Callable[[Any], Any]) -> None:
    """ART drops a returned tuple: every reward would be what it was before, with no error."""
    with pytest.raises(RewardError, match="the reward returned"):
        await gathered(answer)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("by", ["rollout", "callable"])
async def test_a_reward_that_is_no_number_leaves_the_group_whoever_set_it(value: float, by: str) -> None:
    """One NaN makes the advantages of its whole group NaN, and the run ends normally, having learnt nothing."""

    async def played(model: Any, scenario: Scenario) -> art.Trajectory:
        trajectory = await rollout(model, scenario)
        trajectory.reward = value if by == "rollout" and scenario.id == "a" else 1.0
        return trajectory

    def reward(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        group.trajectories[1].reward = value
        return group

    result = await gathered(reward if by == "callable" else None, played)

    assert rewards(result) == ([[1.0, 1.0]] * 2 if by == "callable" else [[], [1.0] * 3])
    assert (
        f"the reward of {result.lost[0].metadata['scenario_id']!r} is {value!r}"
        in result.groups[0].exceptions[0].message
    )


async def test_a_kept_episode_that_nobody_gave_a_reward_says_what_it_failed_of() -> None:
    """That it has no reward follows from that."""

    async def fails(model: Any, scenario: Scenario, played: Episode) -> None:
        played.messages_and_choices = [{"role": "user", "content": "go"}, choice("on")]
        raise KeyError("door")

    result = await gathered(None, capture_partial(fails, failure_policy=FailurePolicy(keep={"environment"})))

    assert result.counts.lost == {"reward": 6}
    assert "the reward of 'a' is nan and it had failed: KeyError: 'door'" in result.groups[0].exceptions[0].message


async def test_a_group_without_members_is_not_scored() -> None:
    """There is nothing to judge, and the judge costs money."""
    asked = []

    async def played(model: Any, scenario: Scenario) -> art.Trajectory:
        if scenario.id == "a":
            raise KeyError("door")
        return await rollout(model, scenario)

    def reward(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        asked.append(group.metadata["scenario_id"])
        return group

    await gathered(reward, played)

    assert asked == ["b"]


async def test_without_a_reward_the_rollouts_own_stand() -> None:
    """Many ART rollouts grade themselves."""

    async def played(model: Any, scenario: Scenario) -> art.Trajectory:
        return art.Trajectory(messages_and_choices=[choice("b")], reward=0.25)

    assert rewards(await gathered(None, played)) == [[0.25] * 3] * 2


async def test_a_cancelled_error_of_a_grader_costs_its_member() -> None:
    """A pool that was shut down must not end the run, nor look as if the caller had."""

    async def grade(episode: Episode) -> float:
        if episode.member == 1:
            raise asyncio.CancelledError
        return 1.0

    result = await gathered(ProgrammaticReward(grade))

    assert rewards(result) == [[1.0, 1.0]] * 2
    assert "grade" in result.groups[0].exceptions[0].message
    assert "raised a CancelledError, though nobody cancelled it" in result.groups[0].exceptions[0].message


async def test_a_cancelled_error_of_an_adapter_costs_its_group() -> None:
    """`on_error` decides, as for any error."""

    class Cancelled(RewardAdapter):
        async def score(self, group: art.TrajectoryGroup) -> list[Any]:
            if group.metadata["scenario_id"] == "a":
                raise asyncio.CancelledError
            return [1.0] * len(group.trajectories)

    result = await gathered(Cancelled())

    assert rewards(result) == [[], [1.0] * 3]
    assert result.groups[0].exceptions[0].message.startswith("Cancelled raised a CancelledError")


async def test_a_function_of_one_episode_is_told_from_one_of_a_group() -> None:
    """The commonest slip: it is a reward once ProgrammaticReward has made one of it."""
    result = await gathered(lambda each: float(each.outcome))

    assert {record.message for record in result.groups[0].exceptions} == {
        (
            "the reward was given a group: 'TrajectoryGroup' object has no attribute 'outcome' "
            "(hint: a function of one episode is given as ProgrammaticReward(function))"
        )
    }
    with pytest.raises(RewardError, match=r"the reward returned 1\.0 .*ProgrammaticReward\(function\)"):
        await gathered(lambda each: 1.0)
