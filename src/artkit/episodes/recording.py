"""Recordings: whole groups as JSON lines, from which equal objects are loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from artkit.bridge.durable import replace_file
from artkit.episodes.recorded_rows import dump_group, dump_trajectory, load_episode, load_group
from artkit.episodes.recorded_values import to_line
from artkit.episodes.recording_lines import FORMAT, read_rows, refusing
from artkit.secrets import scrub_line

if TYPE_CHECKING:
    import art

    from artkit.episodes.episode import Episode
    from artkit.scenarios import Scenario

__all__ = ["ALONE", "LOST", "episode_line", "group_line", "read_groups", "write_groups"]

# Where an episode stands that is in no group: one that left its group, and one that was recorded by itself.
LOST = "lost"
ALONE = "alone"


def write_groups(path: Path | str, groups: Sequence[art.TrajectoryGroup], lost: Iterable[art.Trajectory] = ()) -> None:
    """Write groups and lost episodes to `path`, all or nothing, readable by the user alone.

    A reader never sees half of it, and when this returns it is on the disk.

    Raises:
        OSError: The directory cannot be written, or the disk is full. The old file is then untouched.
    """
    with replace_file(Path(path)) as file:
        file.writelines(line.encode() for line in _lines(groups, lost))


def read_groups(
    path: Path | str, scenarios: Iterable[Scenario] = ()
) -> tuple[list[art.TrajectoryGroup], list[Episode]]:
    """Load what `write_groups` wrote.

    Trajectories of any class come back as an `Episode`, with the fields that ART and artkit know.

    Args:
        path: The recording.
        scenarios: Where the scenario objects are to be had; an episode whose scenario is not among them gets one equal
            to that which was recorded, or its fields as a dict where its class is not loaded.

    Returns:
        The groups, in order, those of episodes that were recorded by themselves last, one per scenario; and the lost
        episodes. A last line that was cut off is left out.

    Raises:
        ConfigurationError: A line that is not the last is no JSON, a later version of artkit wrote the recording, or it
            is none.
        OSError: It cannot be read.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    groups: list[art.TrajectoryGroup] = []
    alone: dict[str, art.TrajectoryGroup] = {}
    lost: list[Episode] = []
    for row in read_rows(path):
        with refusing(path):
            if "group" in row:
                groups.append(load_group(row["group"]))
                continue
            episode = load_episode(row["episode"], by_id)
            if row["place"] == LOST:
                lost.append(episode)
            elif row["place"] == ALONE:
                _group_of(episode, alone).trajectories.append(episode)
            elif groups:
                # Its members follow a group's own line, so recordings may be joined end to end.
                groups[-1].trajectories.append(episode)
            else:
                msg = f"a member of group {row['place']} comes before any group"
                raise ValueError(msg)
    return [*groups, *alone.values()], lost


def group_line(group: art.TrajectoryGroup) -> str:
    """Return the line of a group; those of its members follow it."""
    return scrub_line(to_line({"format": FORMAT, "group": dump_group(group)})) + "\n"


def episode_line(trajectory: art.Trajectory, place: int | str) -> str:
    """Return the line of an episode.

    Args:
        trajectory: The episode.
        place: The number of its group in the recording, from 0, or `LOST` or `ALONE`.
    """
    return scrub_line(to_line({"format": FORMAT, "place": place, "episode": dump_trajectory(trajectory)})) + "\n"


def _lines(groups: Sequence[art.TrajectoryGroup], lost: Iterable[art.Trajectory]) -> Iterable[str]:
    for index, group in enumerate(groups):
        yield group_line(group)
        for trajectory in group.trajectories:
            yield episode_line(trajectory, index)
    for trajectory in lost:
        yield episode_line(trajectory, LOST)


def _group_of(episode: Episode, groups: dict[str, art.TrajectoryGroup]) -> art.TrajectoryGroup:
    scenario_id = str(episode.metadata.get("scenario_id", ""))
    if scenario_id not in groups:
        groups[scenario_id] = load_group(
            {"metadata": {"scenario_id": scenario_id}, "metrics": {}, "logs": [], "exceptions": []}
        )
    return groups[scenario_id]
