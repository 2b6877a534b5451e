"""Grading old episodes with a new reward."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import art

from artkit.episodes import Episode, FailureKind, FailureRecord, record, write_groups
from artkit.rewards import ProgrammaticReward, RewardAdapter
from artkit.rollouts import rescore
from artkit.rollouts.scoring import score_group
from artkit.scenarios import Scenario
from artkit.testing import choice, episode

SCENARIO = Scenario(id="s")


def member(number: int, reply: str = "5", reward: float = 0.5) -> Episode:
    one = episode("2+3=", choice(reply), reward=reward, scenario=SCENARIO)
    one.member = number
    return one


def group(*members: art.Trajectory) -> art.TrajectoryGroup:
    return art.TrajectoryGroup(list(members), metadata={"scenario_id": "s"})


def length(one: art.Trajectory) -> float:
    return float(len(one.messages()[-1]["content"]))  # type: ignore[arg-type]  # it is text here


def rewards(groups: list[art.TrajectoryGroup]) -> list[list[float]]:
    return [[one.reward for one in each.trajectories] for each in groups]


async def test_old_episodes_get_new_rewards(tmp_path: Path) -> None:
    """A better reward need not wait for a new run to be seen."""
    write_groups(tmp_path / "r.jsonl", [group(member(0, "a"), member(1, "abc"))])

    rescored = await rescore(tmp_path / "r.jsonl", ProgrammaticReward(length))

    assert rewards(rescored.groups) == [[1.0, 3.0]]
    assert (rescored.unscored, rescored.lost) == ([], [])


async def test_what_was_given_stays_as_it_is() -> None:
    """The recording is what happened."""
    old = group(member(0, "a"), member(1, "abc"))
    before = copy.deepcopy(old)

    def spoil(scored: art.TrajectoryGroup) -> art.TrajectoryGroup:
        for one in scored.trajectories:
            one.reward = 9.0
            one.metrics["new"] = 1
            one.messages_and_choices.clear()
        scored.trajectories.pop()
        return scored

    await rescore(old, spoil)

    assert old == before


async def test_what_cannot_be_scored_is_told_apart() -> None:
    """A missing reward is not 0."""

    def grade(one: art.Trajectory) -> float | None:
        return None if length(one) > 2 else 1.0

    rescored = await rescore(group(member(0, "a"), member(1, "abc")), ProgrammaticReward(grade))  # type: ignore[arg-type]  # None is an answer

    assert rewards(rescored.groups) == [[1.0]]
    assert [one.member for one in rescored.unscored] == [1]  # type: ignore[attr-defined]
    assert len(rescored.groups[0].exceptions) == 1


async def test_an_episode_that_the_old_reward_could_not_score_gets_its_chance(tmp_path: Path) -> None:
    """It was whole; only its judge failed."""

    def breaks(one: art.Trajectory) -> float:
        raise ValueError("the judge is out")

    def half(one: art.Trajectory) -> float:
        return 1.0 if one.member == 1 else breaks(one)  # type: ignore[attr-defined]

    scored = group(member(0, "ab"), member(1, "abc"))
    unscored = await score_group(scored, ProgrammaticReward(half))
    crashed = member(2)
    crashed.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")
    write_groups(tmp_path / "r.jsonl", [scored], [*unscored, crashed])

    rescored = await rescore([tmp_path / "r.jsonl"], ProgrammaticReward(length))

    [whole] = rescored.groups
    assert rewards([whole]) == [[2.0, 3.0]]
    assert (whole.exceptions, whole.metadata) == ([], {"scenario_id": "s"})
    assert [one.failure for one in whole.trajectories] == [None, None]  # type: ignore[attr-defined]
    assert [one.member for one in rescored.lost] == [2]  # type: ignore[attr-defined]


async def test_an_episode_that_could_not_be_scored_goes_back_to_the_group_of_its_own_step(tmp_path: Path) -> None:
    """The same scenario was played in an earlier step too, where another member is missing for another reason."""
    unscored = member(1, "abc")
    unscored.failure = FailureRecord(kind=FailureKind.REWARD, type="ValueError", message="the judge is out")
    write_groups(tmp_path / "1.jsonl", [group(member(0, "a"))])
    write_groups(tmp_path / "2.jsonl", [group(member(0, "ab"))], [unscored])

    rescored = await rescore([tmp_path / "1.jsonl", tmp_path / "2.jsonl"], ProgrammaticReward(length))

    assert rewards(rescored.groups) == [[1.0], [2.0, 3.0]]


async def test_a_relative_reward_sees_whole_groups(tmp_path: Path) -> None:
    """Its scores mean something only among siblings, which were recorded one by one."""

    class Rank(RewardAdapter):
        relative = True

        async def score(self, group: art.TrajectoryGroup) -> Any:
            order = sorted(length(one) for one in group.trajectories)
            return [float(order.index(length(one))) for one in group.trajectories]

    with record(tmp_path / "r.jsonl") as recording:
        for one in (member(0, "abc"), member(1, "a")):
            recording.add(one)

    assert rewards((await rescore(tmp_path / "r.jsonl", Rank())).groups) == [[1.0, 0.0]]


async def test_scenario_objects_reach_the_reward(tmp_path: Path) -> None:
    """A reward that reads `episode.scenario.label` finds an object, not a dict."""
    seen: list[Any] = []

    def look(one: Any) -> float:
        seen.append(one.scenario)
        return 1.0

    write_groups(tmp_path / "r.jsonl", [group(member(0))])

    await rescore(tmp_path / "r.jsonl", ProgrammaticReward(look), scenarios=[SCENARIO])

    assert seen == [SCENARIO]


async def test_the_result_prints_as_a_line_that_says_what_could_not_be_scored_and_why(tmp_path: Path) -> None:
    """A reward that needs the scenario gets a dict where its class is not loaded, and whole groups come back empty."""

    class Sum(Scenario):  # of a function, so that it cannot be looked up again
        label: str

    def grade(one: Any) -> float:
        return float(one.scenario.label == "5")

    members = [member(number) for number in range(3)]
    for one in members:
        one.scenario = Sum(id="s", label="5")
    crashed = member(3)
    crashed.failure = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")
    write_groups(tmp_path / "r.jsonl", [group(*members)], [crashed])

    blind = await rescore(tmp_path / "r.jsonl", ProgrammaticReward(grade))
    seeing = await rescore(tmp_path / "r.jsonl", ProgrammaticReward(grade), scenarios=[Sum(id="s", label="5")])

    cause = "AttributeError: 'dict' object has no attribute 'label'"
    assert str(blind) == (
        f"0 of 3 episodes rescored in 1 group; 3 could not be scored, the first by {cause}; 1 had been lost before"
    )
    assert [f"{one.type}: {one.message}" for one in blind.groups[0].exceptions] == [cause] * 3
    assert str(seeing) == "3 of 3 episodes rescored in 1 group; 1 had been lost before"


class Known(Scenario):
    label: str


async def test_a_scenario_whose_class_is_loaded_needs_not_be_given(tmp_path: Path) -> None:
    """It comes back from the recording as what it was."""
    one = member(0)
    one.scenario = Known(id="s", label="5")
    write_groups(tmp_path / "r.jsonl", [group(one)])

    rescored = await rescore(tmp_path / "r.jsonl", ProgrammaticReward(lambda one: float(one.scenario.label)))  # type: ignore[attr-defined]

    assert rewards(rescored.groups) == [[5.0]]
