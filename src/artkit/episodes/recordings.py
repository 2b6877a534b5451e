"""Recordings in whatever form they are at hand: files, groups, episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import art

from artkit.episodes.episode import Episode
from artkit.episodes.recorded_rows import load_episode
from artkit.episodes.recording import read_groups
from artkit.episodes.recording_lines import read_rows
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["Recordings", "iter_episodes", "load_groups"]

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
                    yield load_episode(row["episode"], by_id)
        elif isinstance(item, art.TrajectoryGroup):
            yield from item.trajectories
        else:
            yield item


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
    scenarios = list(scenarios)
    groups: list[art.TrajectoryGroup] = []
    lost: list[art.Trajectory] = []
    alone: dict[str, art.TrajectoryGroup] = {}
    for item in _flat(recordings):
        if isinstance(item, Path):
            of_file, lost_of_file = read_groups(item, scenarios)
            groups += of_file
            lost += lost_of_file
        elif isinstance(item, art.TrajectoryGroup):
            groups.append(item)
        elif isinstance(item, Episode) and item.failure is not None:
            lost.append(item)
        else:
            scenario_id = str(item.metadata.get("scenario_id", ""))
            if scenario_id not in alone:
                alone[scenario_id] = art.TrajectoryGroup([], metadata={"scenario_id": scenario_id})
                groups.append(alone[scenario_id])
            alone[scenario_id].trajectories.append(item)
    return groups, lost


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
