"""The rows of a recording: trajectories and groups as JSON data, and back.

ART's own `model_dump_json` loses every `Choice` (it comes back as a role-less dict), so turns are written by hand: a
`Choice` with all its fields, logprobs and token ids included, and any other message as it is. What is loaded is not
validated: it is what ART held, and ART validates neither a server's reply nor most of what is set later.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import art
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel

from artkit.bridge import dump_captured, further_history, group_exception, load_captured
from artkit.episodes.episode import Episode
from artkit.episodes.failure import FailureKind, FailureRecord
from artkit.episodes.stop_reason import StopReason

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["as_json", "dump_group", "dump_trajectory", "load_episode", "load_group"]

_PLAIN_FIELDS = (
    "tools", "reward", "initial_policy_version", "final_policy_version", "metrics", "metadata", "logs",
)  # fmt: skip
_EPISODE_FIELDS = ("scenario", "outcome", "stop_reason", "environment_reward", "member")


def dump_group(group: art.TrajectoryGroup) -> dict[str, Any]:
    """Return everything of a group but its trajectories."""
    exceptions = [
        {"type": record.type, "message": record.message, "traceback": record.traceback} for record in group.exceptions
    ]
    return {"metadata": group.metadata, "metrics": group.metrics, "logs": group.logs, "exceptions": exceptions}


def load_group(row: Mapping[str, Any]) -> art.TrajectoryGroup:
    """Return the group, without its trajectories."""
    group = art.TrajectoryGroup([])
    group.metadata, group.metrics, group.logs = row["metadata"], row["metrics"], row["logs"]
    group.exceptions = [
        group_exception(FailureRecord(kind=FailureKind.ENVIRONMENT, **record)) for record in row["exceptions"]
    ]
    return group


def dump_trajectory(trajectory: art.Trajectory) -> dict[str, Any]:
    """Return all of a trajectory as data for `json.dumps(…, default=as_json)`."""
    row = {name: getattr(trajectory, name) for name in _PLAIN_FIELDS}
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
        row["failure"] = asdict(trajectory.failure) if trajectory.failure else None
        if isinstance(trajectory.outcome, BaseModel):
            kind = type(trajectory.outcome)
            row["outcome_type"] = [kind.__module__, kind.__qualname__]
    return row


def load_episode(row: Mapping[str, Any], scenarios: Mapping[str, Scenario]) -> Episode:
    """Return the trajectory as an `Episode`, with the scenario object where `scenarios` has it by its id."""
    held = {name: row[name] for name in (*_PLAIN_FIELDS, *_EPISODE_FIELDS) if name in row}
    if isinstance(scenario := row.get("scenario"), dict):
        held["scenario"] = scenarios.get(scenario.get("id", ""), scenario)
    if stop_reason := row.get("stop_reason"):
        held["stop_reason"] = StopReason(stop_reason)
    if failure := row.get("failure"):
        held["failure"] = FailureRecord(**{**failure, "kind": FailureKind(failure["kind"])})
    if "outcome_type" in row:
        held["outcome"] = _as_model(row["outcome"], *row["outcome_type"])
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


def as_json(value: object) -> Any:
    """Return what `json` does not know as data: models and dataclasses by field, arrays as lists, else the `repr`."""
    if isinstance(value, BaseModel):
        try:
            return value.model_dump(mode="json", warnings=False)
        except ValueError:  # it holds what pydantic cannot write either; its parts come by here one by one
            return value.model_dump(mode="python", warnings=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)  # in an order, such that equal episodes are recorded alike
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    return repr(value)


def _dump_turn(turn: Any) -> dict[str, Any]:
    if isinstance(turn, Choice):
        return {"choice": turn.model_dump(mode="python", exclude_unset=True, warnings=False)}
    return {"message": turn}


def _load_turn(row: Mapping[str, Any]) -> Any:
    # Constructed as the OpenAI client does it, so a finish reason that only one server knows comes back as well.
    return Choice.construct(**row["choice"]) if "choice" in row else row["message"]


def _as_model(value: Any, module: str, name: str) -> Any:
    """Return an outcome as the model it was; as its data where the program that reads it has not loaded the class.

    A recording is data: what it names is looked for among what is loaded, and never imported.
    """
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return value
    try:
        return kind.model_validate(value)
    except ValueError:  # the class is another by now
        return value
