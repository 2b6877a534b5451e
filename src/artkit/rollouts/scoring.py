"""Scoring a group with whatever fits ART's `after_each`, with nothing lost on the way."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import art

from artkit.bridge import group_exception
from artkit.bridge.safe_values import safe_number
from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import ArtkitError, RewardError
from artkit.rewards import RewardAdapter, note_lost
from artkit.transport import own_cancellation, supervise

__all__ = ["GroupReward", "score_group"]

GroupReward: TypeAlias = Callable[
    [art.TrajectoryGroup], "Awaitable[art.TrajectoryGroup | None] | art.TrajectoryGroup | None"
]
"""A `RewardAdapter`, or any callable that fits ART's `after_each`, async or not.

It returns the group; None means that the group could not be scored.
"""


# A judge may have something to close when it is cancelled.
_GRACE_S = 2.0
_HINT = "a function of one episode is given as ProgrammaticReward(function)"


async def score_group(group: art.TrajectoryGroup, reward: GroupReward | None) -> list[art.Trajectory]:
    """Score `group` in place and return the members that could not be scored; their causes join its exceptions.

    A reward that is no finite number is none, whoever set it: such a member leaves the group as well.

    Args:
        group: A complete group; one without members is left as it is.
        reward: Who scores; None leaves the rewards as the rollouts set them.

    Raises:
        RewardError: The reward broke its contract, or an adapter was told to raise.
    """
    before = list(group.trajectories)
    if before and reward is not None:
        await _score(group, before, reward)
    unscored = [trajectory for trajectory in group.trajectories if safe_number(trajectory.reward) is None]
    for trajectory in unscored:
        problem = f"the reward of {trajectory.metadata.get('scenario_id')!r} is {trajectory.reward!r}"
        if isinstance(trajectory, Episode) and trajectory.failure is not None:  # it was kept for a reward
            problem += f" and it had failed: {trajectory.failure}"
        _drop(group, [trajectory], RewardError(problem, "set a finite number, or leave the episode unscored"))
    kept = {id(trajectory) for trajectory in group.trajectories}
    return [trajectory for trajectory in before if id(trajectory) not in kept]


async def _score(group: art.TrajectoryGroup, members: list[art.Trajectory], reward: GroupReward) -> None:
    async def call() -> art.TrajectoryGroup | None:
        with own_cancellation("the reward", RewardError):
            answer = reward(group)
            return await answer if inspect.isawaitable(answer) else answer

    try:
        scored = await supervise(call, grace_s=_GRACE_S)
    except Exception as error:
        is_cancelled = isinstance(error.__cause__, asyncio.CancelledError)
        if isinstance(reward, RewardAdapter) or (isinstance(error, ArtkitError) and not is_cancelled):
            raise
        # ART's `after_each` has no policy: what raises in it costs this group, never the others.
        is_of_episodes = isinstance(error, AttributeError) and error.obj is group
        _drop(group, members, RewardError(f"the reward was given a group: {error}", _HINT) if is_of_episodes else error)
        return
    if scored is None:
        _drop(group, members, RewardError("the reward returned None for the group", "see its log for the reason"))
    elif not isinstance(scored, art.TrajectoryGroup):
        raise RewardError(f"the reward returned {scored!r}", f"return the art.TrajectoryGroup it was given; {_HINT}")
    elif not isinstance(reward, RewardAdapter):
        _take_over(group, members, scored)


def _take_over(group: art.TrajectoryGroup, members: list[art.Trajectory], scored: art.TrajectoryGroup) -> None:
    """Take what `scored` says: the group itself, some of its members, or a rebuilt group.

    `art.rewards.ruler_score_group` rebuilds: its copies have lost the episodes' own fields, its group what it held.
    """
    returned = list(scored.trajectories)
    group.trajectories = list(members)
    if {id(trajectory) for trajectory in returned} <= {id(member) for member in members}:
        left_out = [member for member in members if not any(member is trajectory for trajectory in returned)]
        _drop(group, left_out, RewardError("the reward left this member out", "see its log for the reason"))
    elif len(returned) == len(members):
        for member, copy in zip(members, returned, strict=True):
            member.reward = copy.reward
            member.logs.extend(line for line in copy.logs if line not in member.logs)
            member.metrics |= copy.metrics
            member.metadata |= copy.metadata
    else:
        raise RewardError(
            f"the reward returned a new group of {len(returned)} for {len(members)} members",
            "return the group it was given, or as many trajectories in the same order",
        )
    if scored is not group:
        group.metadata = {**group.metadata, **scored.metadata}
        group.metrics = {**group.metrics, **scored.metrics}
        group.logs.extend(line for line in scored.logs if line not in group.logs)


def _drop(group: art.TrajectoryGroup, members: Collection[art.Trajectory], cause: Exception) -> None:
    record = FailureRecord.from_exception(cause, FailureKind.REWARD)
    for member in members:
        if isinstance(member, Episode):
            member.failure = record
        member.metadata["failure_kind"] = str(FailureKind.REWARD)
        group.exceptions.append(group_exception(record))
        note_lost(group, FailureKind.REWARD)
    group.trajectories = [
        trajectory for trajectory in group.trajectories if not any(trajectory is member for member in members)
    ]
