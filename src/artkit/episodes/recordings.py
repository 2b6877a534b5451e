"""Recordings in whatever form they are at hand: files, groups, episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import art

from artkit.episodes.episode import Episode
from artkit.episodes.recorded_rows import load_episode
from artkit.episodes.recording import read_groups
from artkit.episodes.recording_lines import read_rows, refusing
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["Recordings", "iter_episodes", "load_groups", "load_parts"]

Recordings: TypeAlias = "str | Path | art.TrajectoryGroup | art.Trajectory | Iterable[Recordings]"
"""A recording: its path, groups or episodes that were loaded, or several of these."""


def iter_episodes(recordings: Recordings, scenarios: Iterable[Scenario] = ()) -> Iterator[art.Trajectory]:
    """Yield the episodes of recordings in order, lost ones included; files are read as they are needed.

    Args:
        recordings: Paths, groups, episodes, or an iterable of these.
        scenarios: As for `read_groups`.

    Raises:
        ConfigurationError: Something is neither, or a file is no recording or one of a later artkit.
        OSError: A file cannot be read.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    for item in _flat(recordings):
        if isinstance(item, Path):
            for row in read_rows(item):
                if "episode" in row:
                    with refusing(item):
                        episode = load_episode(row["episode"], by_id)
                    yield episode
        elif isinstance(item, art.TrajectoryGroup):
            for member in item.trajectories:
                yield _with_scenario(member, by_id)
        else:
            yield _with_scenario(item, by_id)


def load_groups(
    recordings: Recordings, scenarios: Iterable[Scenario] = ()
) -> tuple[list[art.TrajectoryGroup], list[art.Trajectory]]:
    """Return the groups of recordings, in order, and the lost episodes.

    Of episodes that are given by themselves, those that failed are lost, and the others are grouped by scenario.

    Args:
        recordings: As for `iter_episodes`.
        scenarios: As for `read_groups`.

    Raises:
        ConfigurationError: As for `iter_episodes`.
        OSError: A file cannot be read.
    """
    groups: list[art.TrajectoryGroup] = []
    lost: list[art.Trajectory] = []
    for of_part, lost_of_part in load_parts(recordings, scenarios):
        groups += of_part
        lost += lost_of_part
    return groups, lost


def load_parts(
    recordings: Recordings, scenarios: Iterable[Scenario] = ()
) -> Iterator[tuple[list[art.TrajectoryGroup], list[art.Trajectory]]]:
    """Yield what `load_groups` returns in parts: each file by itself, and what is at hand between two files.

    A scenario that was played in several steps has a group in each of their files: a lost episode belongs to its own.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    at_hand: list[art.TrajectoryGroup | art.Trajectory] = []
    for item in _flat(recordings):
        if not isinstance(item, Path):
            at_hand.append(item)
            continue
        if at_hand:
            yield _grouped(at_hand, by_id)
            at_hand = []
        groups, lost = read_groups(item, by_id.values())
        yield groups, list(lost)
    if at_hand:
        yield _grouped(at_hand, by_id)


def _grouped(
    items: Iterable[art.TrajectoryGroup | art.Trajectory], scenarios: Mapping[str, Scenario]
) -> tuple[list[art.TrajectoryGroup], list[art.Trajectory]]:
    groups: list[art.TrajectoryGroup] = []
    lost: list[art.Trajectory] = []
    alone: dict[str, art.TrajectoryGroup] = {}
    for item in items:
        if isinstance(item, art.TrajectoryGroup):
            members = [_with_scenario(member, scenarios) for member in item.trajectories]
            groups.append(item.model_copy(update={"trajectories": members}))
            continue
        episode = _with_scenario(item, scenarios)
        if isinstance(episode, Episode) and episode.failure is not None:
            lost.append(episode)
            continue
        scenario_id = str(episode.metadata.get("scenario_id", ""))
        if scenario_id not in alone:
            alone[scenario_id] = art.TrajectoryGroup([], metadata={"scenario_id": scenario_id})
            groups.append(alone[scenario_id])
        alone[scenario_id].trajectories.append(episode)
    return groups, lost


def _with_scenario(episode: art.Trajectory, scenarios: Mapping[str, Scenario]) -> art.Trajectory:
    """Return an episode that was loaded with its scenario as fields, with the object that `scenarios` has."""
    fields = getattr(episode, "scenario", None)
    scenario = scenarios.get(fields.get("id", "")) if isinstance(fields, dict) else None
    return episode if scenario is None else episode.model_copy(update={"scenario": scenario})


def _flat(recordings: Recordings) -> Iterator[Path | art.TrajectoryGroup | art.Trajectory]:
    if isinstance(recordings, str | Path):
        yield Path(recordings)
    elif isinstance(recordings, art.TrajectoryGroup | art.Trajectory):
        yield recordings
    elif isinstance(recordings, Iterable):
        for item in recordings:
            yield from _flat(item)
    else:
        raise ConfigurationError(f"{recordings!r} is no recording", "give a path, a group, an episode, or several")
