"""The rows of a recording: trajectories and groups as JSON data, and back.

ART's own `model_dump_json` loses every `Choice` (it comes back as a role-less dict), so turns are written by hand: a
`Choice` with all its fields, logprobs and token ids included, and any other message as it is. What is loaded is not
validated: it is what ART held, and ART validates neither a server's reply nor most of what is set later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import art
from openai.types.chat.chat_completion import Choice

from artkit.bridge import dump_captured, further_history, group_exception, load_captured
from artkit.episodes.episode import Episode
from artkit.episodes.failure import FailureKind, FailureRecord
from artkit.episodes.recorded_values import dump_object, load_object
from artkit.episodes.stop_reason import StopReason
from artkit.secrets import scrub_values

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["dump_group", "dump_trajectory", "load_episode", "load_group"]

_PLAIN_FIELDS = (
    "tools", "reward", "initial_policy_version", "final_policy_version", "metrics", "metadata", "logs",
)  # fmt: skip
_EPISODE_FIELDS = ("scenario", "outcome", "stop_reason", "environment_reward", "member")
# Of a user's own classes.
_OBJECTS = ("scenario", "outcome")


def dump_group(group: art.TrajectoryGroup) -> dict[str, Any]:
    """Return everything of a group but its trajectories."""
    exceptions = [
        {"type": record.type, "message": record.message, "traceback": record.traceback} for record in group.exceptions
    ]
    told = {"metadata": group.metadata, "metrics": group.metrics, "logs": group.logs, "exceptions": exceptions}
    return scrub_values(told)


def load_group(row: Mapping[str, Any]) -> art.TrajectoryGroup:
    """Return the group, without its trajectories."""
    group = art.TrajectoryGroup([])
    group.metadata, group.metrics, group.logs = row["metadata"], row["metrics"], row["logs"]
    group.exceptions = [
        group_exception(FailureRecord(kind=FailureKind.ENVIRONMENT, **record)) for record in row["exceptions"]
    ]
    return group


def dump_trajectory(trajectory: art.Trajectory) -> dict[str, Any]:
    """Return all of a trajectory as data for `to_line`."""
    row = {name: getattr(trajectory, name) for name in _PLAIN_FIELDS}
    row |= scrub_values({name: row[name] for name in ("metadata", "logs")})
    row["turns"] = [_dump_turn(turn) for turn in trajectory.messages_and_choices]
    row["histories"] = [
        {"turns": [_dump_turn(turn) for turn in history.messages_and_choices], "tools": history.tools}
        for history in trajectory.additional_histories
    ]
    row["start_time"] = trajectory.start_time.isoformat()
    if (captured := dump_captured(trajectory)) is not None:
        row["exchanges"] = captured
    if isinstance(trajectory, Episode):
        row |= {name: getattr(trajectory, name) for name in _EPISODE_FIELDS}
        row["failure"] = scrub_values(asdict(trajectory.failure)) if trajectory.failure else None
        for name in _OBJECTS:
            row[name], kind = dump_object(row[name])
            if kind is not None:
                row[f"{name}_type"] = kind
    return row


def load_episode(row: Mapping[str, Any], scenarios: Mapping[str, Scenario]) -> Episode:
    """Return the trajectory as an `Episode`, with the scenario object that `scenarios` has under its id, if any."""
    # The reward of a rollout that was written for plain ART is what it found itself.
    held = {"environment_reward": row["reward"]}
    held |= {name: row[name] for name in (*_PLAIN_FIELDS, *_EPISODE_FIELDS) if name in row}
    for name in _OBJECTS:
        held[name] = load_object(row.get(name), row.get(f"{name}_type"))
    if isinstance(scenario := row.get("scenario"), dict):
        held["scenario"] = scenarios.get(scenario.get("id", ""), held["scenario"])
    if stop_reason := row.get("stop_reason"):
        held["stop_reason"] = StopReason(stop_reason)
    if failure := row.get("failure"):
        held["failure"] = FailureRecord(**{**failure, "kind": FailureKind(failure["kind"])})
    held |= load_captured(row.get("exchanges"))
    return Episode.model_construct(
        messages_and_choices=[_load_turn(turn) for turn in row["turns"]],
        additional_histories=[
            further_history([_load_turn(turn) for turn in history["turns"]], history["tools"])
            for history in row["histories"]
        ],
        start_time=datetime.fromisoformat(row["start_time"]),
        **held,
    )


def _dump_turn(turn: Any) -> dict[str, Any]:
    if isinstance(turn, Choice):
        return {"choice": turn.model_dump(mode="python", exclude_unset=True, warnings=False)}
    return {"message": turn}


def _load_turn(row: Mapping[str, Any]) -> Any:
    # Constructed as the OpenAI client does it, so a finish reason that only one server knows comes back as well.
    return Choice.construct(**row["choice"]) if "choice" in row else row["message"]
