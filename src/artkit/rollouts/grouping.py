"""From finished rollouts to a group, and from a group to a scored group, with nothing lost on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import art

from artkit.bridge import group_exception
from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import ArtkitError, EnvironmentContractError, RewardError
from artkit.rewards import RewardAdapter
from artkit.rollouts.attempt import Attempt, Failed

if TYPE_CHECKING:
    from artkit.episodes import FailurePolicy
    from artkit.scenarios import Scenario

__all__ = ["as_episode", "build_group", "failure_of", "score_group"]


def as_episode(trajectory: object, scenario: Scenario, member: int) -> art.Trajectory:
    """Return what a rollout returned as an `Episode` that knows its scenario.

    A plain `art.Trajectory` becomes an `Episode`; a user's own subclass stays what it is.

    Raises:
        EnvironmentContractError: It is no trajectory.
    """
    if not isinstance(trajectory, art.Trajectory):
        raise EnvironmentContractError(f"the rollout returned {trajectory!r}", "return an art.Trajectory")
    if type(trajectory) is art.Trajectory:
        fields = {name: getattr(trajectory, name) for name in art.Trajectory.model_fields}
        # Constructed, not validated: validation would copy every message.
        trajectory = Episode.model_construct(**fields, member=member)
    if isinstance(trajectory, Episode) and trajectory.scenario is None:
        trajectory.scenario = scenario
    trajectory.metadata.setdefault("scenario_id", scenario.id)
    return trajectory


def failure_of(trajectory: art.Trajectory) -> FailureRecord | None:
    """Return what went wrong in an episode, or None."""
    return trajectory.failure if isinstance(trajectory, Episode) else None


def build_group(
    scenario: Scenario, members: Sequence[Attempt], policy: FailurePolicy
) -> tuple[art.TrajectoryGroup, list[art.Trajectory]]:
    """Return the group of what may be trained on, in member order, and the episodes that left it.

    The cause of everything that is not in the group is among its exceptions, so ART's `exception_rate` counts it.
    """
    kept: list[art.Trajectory] = []
    lost: list[art.Trajectory] = []
    causes: list[FailureRecord] = []
    for member in members:
        if isinstance(member, Failed):
            causes.append(member.record)
        elif (failure := failure_of(member)) is None or policy.keeps(failure.kind):
            kept.append(member)
        else:
            lost.append(member)
            causes.append(failure)
    group = art.TrajectoryGroup(kept, metadata={"scenario_id": scenario.id})
    group.exceptions.extend(group_exception(cause) for cause in causes)
    return group, lost


async def score_group(
    group: art.TrajectoryGroup, reward: Callable[[art.TrajectoryGroup], Awaitable[art.TrajectoryGroup]]
) -> list[art.Trajectory]:
    """Score `group` in place and return the members that could not be scored.

    Raises:
        RewardError: The reward broke its contract, or an adapter was told to raise.
    """
    before = list(group.trajectories)
    if not before:
        return []
    try:
        scored = await reward(group)
    except Exception as error:
        if isinstance(reward, RewardAdapter) or isinstance(error, ArtkitError):
            raise
        # ART's `after_each` has no policy: what raises in it costs this group, never the others.
        return _unscored(group, before, error)
    if not isinstance(scored, art.TrajectoryGroup):
        raise RewardError(f"the reward returned {scored!r}", "return the art.TrajectoryGroup it was given")
    if scored is not group:
        _take_over(group, scored)
    kept = {id(trajectory) for trajectory in group.trajectories}
    return [trajectory for trajectory in before if id(trajectory) not in kept]


def _unscored(group: art.TrajectoryGroup, members: list[art.Trajectory], error: Exception) -> list[art.Trajectory]:
    record = FailureRecord.from_exception(error, FailureKind.REWARD)
    for trajectory in members:
        if isinstance(trajectory, Episode):
            trajectory.failure = record
    group.trajectories = []
    group.exceptions.extend(group_exception(record) for _ in members)
    return members


def _take_over(group: art.TrajectoryGroup, scored: art.TrajectoryGroup) -> None:
    """Take the scores of a rebuilt group, as `art.rewards.ruler_score_group` returns one, without its losses."""
    members = group.trajectories
    if len(scored.trajectories) != len(members):
        raise RewardError(
            f"the reward returned a new group of {len(scored.trajectories)} for {len(members)} members",
            "return the group it was given, or as many trajectories in the same order",
        )
    for member, copy in zip(members, scored.trajectories, strict=True):
        member.reward = copy.reward
        member.metrics |= copy.metrics
        member.metadata |= copy.metadata
        member.logs = copy.logs if len(copy.logs) > len(member.logs) else member.logs
    group.metadata = {**group.metadata, **scored.metadata}
    group.metrics = {**group.metrics, **scored.metrics}
    group.logs.extend(line for line in scored.logs if line not in group.logs)

