"""From finished rollouts to a group: what may be trained on, and the causes of everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import art

from artkit.bridge import group_exception
from artkit.episodes import Episode, FailureRecord
from artkit.errors import EnvironmentContractError
from artkit.rewards import note_lost

if TYPE_CHECKING:
    from artkit.episodes import FailurePolicy
    from artkit.scenarios import Scenario

__all__ = ["as_episode", "build_group", "failure_of"]


def as_episode(trajectory: object, scenario: Scenario, member: int) -> art.Trajectory:
    """Return what a rollout returned as an `Episode` that knows its scenario and its place.

    A plain `art.Trajectory` becomes an `Episode` whose `environment_reward` is the reward it came with; a user's own
    subclass stays what it is.

    Raises:
        EnvironmentContractError: It is no trajectory.
    """
    if not isinstance(trajectory, art.Trajectory):
        raise EnvironmentContractError(f"the rollout returned {trajectory!r}", "return an art.Trajectory")
    if type(trajectory) is art.Trajectory:
        fields = {name: getattr(trajectory, name) for name in art.Trajectory.model_fields}
        # Constructed, not validated: validation would copy every message.
        trajectory = Episode.model_construct(**fields, environment_reward=trajectory.reward)
    if isinstance(trajectory, Episode):
        trajectory.member = member
        if trajectory.scenario is None:
            trajectory.scenario = scenario
    trajectory.metadata.setdefault("scenario_id", scenario.id)
    return trajectory


def failure_of(trajectory: art.Trajectory) -> FailureRecord | None:
    """Return what went wrong in an episode, or None."""
    return trajectory.failure if isinstance(trajectory, Episode) else None


def build_group(
    scenario: Scenario, members: Iterable[art.Trajectory | FailureRecord], policy: FailurePolicy
) -> tuple[art.TrajectoryGroup, list[art.Trajectory]]:
    """Return the group of what may be trained on, in member order, and the episodes that left it.

    The cause of everything that is not in the group is among its exceptions, so ART's `exception_rate` counts it.

    Args:
        scenario: What was played.
        members: The episodes in order, and in the place of one that was not to be had the failure.
        policy: Says which failures stay.
    """
    kept: list[art.Trajectory] = []
    lost: list[art.Trajectory] = []
    causes: list[FailureRecord] = []
    for member in members:
        if isinstance(member, FailureRecord):
            causes.append(member)
        elif (failure := failure_of(member)) is None or policy.keeps(failure.kind):
            kept.append(member)
        else:
            lost.append(member)
            causes.append(failure)
    group = art.TrajectoryGroup(kept, metadata={"scenario_id": scenario.id})
    for cause in causes:
        group.exceptions.append(group_exception(cause))
        note_lost(group, cause.kind)
    return group, lost
