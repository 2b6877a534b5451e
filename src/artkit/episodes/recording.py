"""Recordings: whole groups as JSON lines, from which equal objects are loaded.

ART's own `model_dump_json` loses every `Choice` (it comes back as a role-less dict), so turns are written by hand: a
`Choice` with all its fields, logprobs and token ids included, and any other message as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import art
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel

from artkit.bridge import group_exception
from artkit.episodes.episode import Episode
from artkit.episodes.failure import FailureKind, FailureRecord
from artkit.episodes.stop_reason import StopReason

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["read_groups", "write_groups"]

_FORMAT = 1

# The class of a further history has another name in each ART version; the field knows it.
_History = get_args(art.Trajectory.model_fields["additional_histories"].annotation)[0]


def write_groups(path: Path, groups: Sequence[art.TrajectoryGroup], lost: Iterable[Episode] = ()) -> None:
    """Write groups and lost episodes to `path`, all or nothing, readable by the user alone.

    The file is written beside its place, flushed to the disk and renamed, so a reader never sees half of it.

    Raises:
        OSError: The directory cannot be written, or the disk is full. The old file is then untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(_line(row) for row in _rows(groups, lost))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_groups(
    path: Path, scenarios: Iterable[Scenario] = ()
) -> tuple[list[art.TrajectoryGroup], list[Episode]]:
    """Load what `write_groups` wrote.

    Args:
        path: The recording.
        scenarios: Where the scenario objects are to be had; an episode whose scenario is not among them gets the
            scenario's fields as a dict.

    Returns:
        The groups, in order, and the lost episodes. A last line that was cut off is left out.
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
        if "group" in row:
            groups.append(_load_group(row["group"]))
            continue
        episode = _load_episode(row["episode"], by_id)
        if row["place"] == "lost":
            lost.append(episode)
        else:
            groups[row["place"]].trajectories.append(episode)
    return groups, lost


def _rows(groups: Sequence[art.TrajectoryGroup], lost: Iterable[Episode]) -> Iterable[dict[str, Any]]:
    for index, group in enumerate(groups):
        exceptions = [
            {"type": record.type, "message": record.message, "traceback": record.traceback}
            for record in group.exceptions
        ]
        yield {
            "format": _FORMAT,
            "group": {
                "metadata": group.metadata,
                "metrics": group.metrics,
                "logs": group.logs,
                "exceptions": exceptions,
            },
        }
        for trajectory in group.trajectories:
            yield {"format": _FORMAT, "place": index, "episode": _dump_episode(trajectory)}
    for episode in lost:
        yield {"format": _FORMAT, "place": "lost", "episode": _dump_episode(episode)}


def _line(row: dict[str, Any]) -> str:
    # ASCII only: text of a model may hold lone surrogates, which UTF-8 cannot.
    return json.dumps(row, ensure_ascii=True, default=_plain) + "\n"


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return repr(value)


def _dump_turn(turn: Any) -> dict[str, Any]:
    if isinstance(turn, Choice):
        return {"choice": turn.model_dump(mode="python", exclude_unset=True, warnings=False)}
    return {"message": turn}


def _load_turn(row: dict[str, Any]) -> Any:
    if "choice" in row:
        return Choice.model_validate(row["choice"])
    return row["message"]


def _dump_episode(trajectory: art.Trajectory) -> dict[str, Any]:
    row: dict[str, Any] = {
        "turns": [_dump_turn(turn) for turn in trajectory.messages_and_choices],
        "histories": [
            {"turns": [_dump_turn(turn) for turn in history.messages_and_choices], "tools": history.tools}
            for history in trajectory.additional_histories
        ],
        "tools": trajectory.tools,
        "reward": trajectory.reward,
        "initial_policy_version": trajectory.initial_policy_version,
        "final_policy_version": trajectory.final_policy_version,
        "metrics": trajectory.metrics,
        "metadata": trajectory.metadata,
        "logs": trajectory.logs,
        "start_time": trajectory.start_time.isoformat(),
    }
    # Turns that openpipe-art 0.5.23 captured by itself.
    if exchanges := getattr(trajectory, "exchanges", None):
        row["exchanges"] = exchanges.model_dump(mode="json")
    if isinstance(trajectory, Episode):
        row |= {
            "scenario": trajectory.scenario,
            "outcome": trajectory.outcome,
            "stop_reason": trajectory.stop_reason,
            "environment_reward": trajectory.environment_reward,
            "failure": asdict(trajectory.failure) if trajectory.failure else None,
            "member": trajectory.member,
        }
    return row


def _load_episode(row: dict[str, Any], scenarios: dict[str, Scenario]) -> Episode:
    row = dict(row)
    turns = [_load_turn(turn) for turn in row.pop("turns")]
    histories = [
        _History.model_construct(
            messages_and_choices=[_load_turn(turn) for turn in history["turns"]], tools=history["tools"]
        )
        for history in row.pop("histories")
    ]
    scenario = row.pop("scenario", None)
    if isinstance(scenario, dict):
        scenario = scenarios.get(cast(str, scenario.get("id")), scenario)
    failure = row.pop("failure", None)
    stop_reason = row.pop("stop_reason", None)
    episode = Episode(
        tools=row.pop("tools"),
        start_time=datetime.fromisoformat(row.pop("start_time")),
        scenario=scenario,
        stop_reason=StopReason(stop_reason) if stop_reason else None,
        failure=FailureRecord(**(failure | {"kind": FailureKind(failure["kind"])})) if failure else None,
        **row,
    )
    # Assigned, not passed: validation would copy the messages, and ART validates nothing on assignment.
    episode.messages_and_choices = turns
    if histories:
        episode.additional_histories = histories
    return episode


def _load_group(row: dict[str, Any]) -> art.TrajectoryGroup:
    group = art.TrajectoryGroup([], metadata=row["metadata"], metrics=row["metrics"], logs=row["logs"])
    group.exceptions = [
        group_exception(FailureRecord(kind=FailureKind.ENVIRONMENT, **record)) for record in row["exceptions"]
    ]
    return group
