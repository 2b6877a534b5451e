"""Grading old episodes with a new reward."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artkit.episodes import Episode, FailureKind, Recordings
from artkit.episodes.recordings import load_parts
from artkit.rollouts.scoring import GroupReward, score_group

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Scenario

__all__ = ["RescoredGroups", "rescore"]


@dataclass(frozen=True, kw_only=True)
class RescoredGroups:
    """What a new reward made of old episodes; it prints as a line to read.

    Attributes:
        groups: One per recorded group, in order; members that could not be scored have left it, with their causes in
            its exceptions.
        unscored: The members that could not be scored.
        lost: Episodes that had left their group before, for another reason than their reward; they were not scored.
    """

    groups: list[art.TrajectoryGroup]
    unscored: list[art.Trajectory]
    lost: list[art.Trajectory]

    def __str__(self) -> str:
        scored = sum(len(group.trajectories) for group in self.groups)
        episodes = _count(scored + len(self.unscored), "episode")
        parts = [f"{scored} of {episodes} rescored in {_count(len(self.groups), 'group')}"]
        if self.unscored:
            failures = [one.failure for one in self.unscored if isinstance(one, Episode) and one.failure]
            first = f", the first by {failures[0]}" if failures else ""
            parts.append(f"{len(self.unscored)} could not be scored{first}")
        if self.lost:
            parts.append(f"{len(self.lost)} had been lost before")
        return "; ".join(parts)


async def rescore(recordings: Recordings, reward: GroupReward, *, scenarios: Iterable[Scenario] = ()) -> RescoredGroups:
    """Score recorded episodes with `reward`; no model plays, and what was given stays as it is.

    An episode that was lost because it could not be scored is scored with its group again.

    Args:
        recordings: A path, groups or episodes that were loaded, or several of these.
        reward: A `RewardAdapter`, or any callable that fits ART's `after_each`.
        scenarios: The scenario objects, for rewards that look at them; without them a scenario that was read from a
            file is one equal to it, or a dict of its fields where its class is not loaded.

    Raises:
        ConfigurationError: `recordings` is none.
        RewardError: The reward broke its contract, or an adapter was told to raise.

    >>> import asyncio
    >>> from artkit.rewards import ProgrammaticReward
    >>> from artkit.testing import choice, episode
    >>> old = episode("Say hi.", choice("hi"), reward=0.0)
    >>> rescored = asyncio.run(rescore(old, ProgrammaticReward(lambda episode: 1.0)))
    >>> rescored.groups[0].trajectories[0].reward, old.reward
    (1.0, 0.0)
    >>> print(rescored)
    1 of 1 episode rescored in 1 group
    """
    groups: list[art.TrajectoryGroup] = []
    still_lost: list[art.Trajectory] = []
    for loaded, lost in load_parts(recordings, scenarios):
        copied = [_copy(group) for group in loaded]
        still_lost += [episode for episode in map(copy.deepcopy, lost) if not _rejoins(episode, copied)]
        groups += copied
    unscored: list[art.Trajectory] = []
    for group in groups:
        unscored += await score_group(group, reward)
    return RescoredGroups(groups=groups, unscored=unscored, lost=still_lost)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rejoins(episode: art.Trajectory, groups: list[art.TrajectoryGroup]) -> bool:
    """Put an episode that could not be scored back into its group; whether that was done."""
    if not isinstance(episode, Episode) or episode.failure is None or episode.failure.kind is not FailureKind.REWARD:
        return False
    scenario_id = episode.metadata.get("scenario_id")
    for group in groups:
        members = [getattr(member, "member", None) for member in group.trajectories]
        if group.metadata.get("scenario_id") == scenario_id and episode.member not in members:
            group.trajectories.append(episode)
            group.trajectories.sort(key=lambda member: getattr(member, "member", 0))
            _forget_loss(group, episode)
            episode.failure = None
            episode.metadata["failure_kind"] = None
            return True
    return False


def _forget_loss(group: art.TrajectoryGroup, episode: Episode) -> None:
    """Take the cause of a loss that is being undone out of what the group remembers."""
    cause = episode.failure
    for number, known in enumerate(group.exceptions):
        if cause is not None and (known.type, known.message) == (cause.type, cause.message):
            del group.exceptions[number]
            break
    name = f"lost_{FailureKind.REWARD}"
    count = group.metadata.get(name)
    if isinstance(count, int) and count > 1:
        group.metadata[name] = count - 1
    else:
        group.metadata.pop(name, None)


def _copy(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    own = {"metrics": dict(group.metrics), "metadata": dict(group.metadata), "logs": list(group.logs)}
    trajectories = [copy.deepcopy(trajectory) for trajectory in group.trajectories]
    return group.model_copy(update={**own, "trajectories": trajectories, "exceptions": list(group.exceptions)})
