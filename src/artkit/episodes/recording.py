"""Recordings: whole groups as JSON lines, from which equal objects are loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artkit.bridge.durable import replace_file
from artkit.bridge.safe_values import safe_json
from artkit.episodes.recorded_rows import as_json, dump_group, dump_trajectory, load_episode, load_group
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

    from artkit.episodes.episode import Episode
    from artkit.scenarios import Scenario

__all__ = ["read_groups", "write_groups"]

_FORMAT = 1


def write_groups(path: Path, groups: Sequence[art.TrajectoryGroup], lost: Iterable[art.Trajectory] = ()) -> None:
    """Write groups and lost episodes to `path`, all or nothing, readable by the user alone.

    A reader never sees half of it, and when this returns it is on the disk.

    Raises:
        OSError: The directory cannot be written, or the disk is full. The old file is then untouched.
    """
    with replace_file(path) as file:
        file.writelines(_line(row).encode() for row in _rows(groups, lost))


def read_groups(path: Path, scenarios: Iterable[Scenario] = ()) -> tuple[list[art.TrajectoryGroup], list[Episode]]:
    """Load what `write_groups` wrote.

    Trajectories of any class come back as an `Episode`, with the fields that ART and artkit know.

    Args:
        path: The recording.
        scenarios: Where the scenario objects are to be had; an episode whose scenario is not among them gets the
            scenario's fields as a dict.

    Returns:
        The groups, in order, and the lost episodes. A last line that was cut off is left out.

    Raises:
        ConfigurationError: A later version of artkit wrote the recording.
        ValueError: A line that is not the last is no JSON.
    """
    by_id = {scenario.id: scenario for scenario in scenarios}
    groups: list[art.TrajectoryGroup] = []
    lost: list[Episode] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise
        if row["format"] > _FORMAT:
            raise ConfigurationError(
                f"{path} is a recording of format {row['format']}, and this artkit reads up to {_FORMAT}",
                "read it with the version of artkit that wrote it",
            )
        if "group" in row:
            groups.append(load_group(row["group"]))
            continue
        episode = load_episode(row["episode"], by_id)
        if row["place"] == "lost":
            lost.append(episode)
        else:
            groups[row["place"]].trajectories.append(episode)
    return groups, lost


def _rows(groups: Sequence[art.TrajectoryGroup], lost: Iterable[art.Trajectory]) -> Iterable[dict[str, Any]]:
    for index, group in enumerate(groups):
        yield {"format": _FORMAT, "group": dump_group(group)}
        for trajectory in group.trajectories:
            yield {"format": _FORMAT, "place": index, "episode": dump_trajectory(trajectory)}
    for trajectory in lost:
        yield {"format": _FORMAT, "place": "lost", "episode": dump_trajectory(trajectory)}


def _line(row: dict[str, Any]) -> str:
    # ASCII only: text of a model may hold lone surrogates, which UTF-8 cannot.
    try:
        text = json.dumps(row, default=as_json)
    except TypeError:  # keys that JSON cannot have: a step must not be lost over somebody's odd metadata
        text = json.dumps(safe_json(row))
    return text + "\n"
