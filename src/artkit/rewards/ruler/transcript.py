"""The transcript: what a judge gets to see of a trajectory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artkit.bridge import conversations
from artkit.bridge.safe_values import safe_json, safe_text
from artkit.episodes import FailureKind, StopReason
from artkit.errors import RewardError
from artkit.rewards.ruler.content import Pictures, shown

if TYPE_CHECKING:
    import art

__all__ = ["Transcript", "common_opening", "read_transcript"]

_ORDINARY = frozenset({None, "stop", "tool_calls", "function_call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What a judge gets to see of a trajectory; equal transcripts deserve equal scores.

    Attributes:
        messages: The messages in order, as JSON data, and at the end how the episode broke off, if it did.
        tools: The tools that were on offer, or None.
        pictures: The pictures in them.
        digest: The same for equal transcripts, in every process.
    """

    messages: tuple[dict[str, Any], ...]
    tools: Any
    pictures: Pictures
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(json.dumps(self.messages, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "digest", digest)


def read_transcript(trajectory: art.Trajectory) -> Transcript:
    """Return what a judge gets to see: what was said, called and answered, and what went wrong.

    The ids of tool calls are numbered anew, for they are random. The model's reasoning stays its own.

    Raises:
        RewardError: There is no reply of the model to judge.
    """
    pictures: Pictures = {}
    messages: list[dict[str, Any]] = []
    try:
        parts = conversations(trajectory)
    except ValueError as error:
        raise RewardError(f"it cannot be read: {error}", "score chats, or write a reward of your own") from error
    for number, part in enumerate(parts, start=1):
        if number > 1:
            messages.append({"note": f"conversation {number} of the same agent begins"})
        call_ids: dict[str, str] = {}
        messages += [_message(turn, call_ids, pictures) for turn in part.turns]
    if not any(message.get("role") == "assistant" for message in messages):
        raise RewardError("it holds no reply of the model", "give the episode at least one turn of the model")
    if ending := _ending(trajectory):
        messages.append({"ended": ending})
    # Sorted, for ART's versions order the fields of a tool differently.
    tools = json.loads(json.dumps(safe_json(list(parts[0].tools)), sort_keys=True)) if parts[0].tools else None
    return Transcript(messages=tuple(messages), tools=tools, pictures=pictures)


def _message(turn: Any, call_ids: dict[str, str], pictures: Pictures) -> dict[str, Any]:
    finish_reason = None
    if not isinstance(turn, Mapping):
        finish_reason = turn.finish_reason
        turn = {"role": "assistant", **turn.message.model_dump(exclude_none=True, warnings=False)}
    message: dict[str, Any] = {"role": str(turn.get("role")), "content": shown(turn.get("content") or "", pictures)}
    if name := turn.get("name"):
        message["name"] = safe_text(str(name))
    if calls := turn.get("tool_calls"):
        message["tool_calls"] = [_call(call, call_ids, pictures) for call in calls]
    if old_call := turn.get("function_call"):
        message["function_call"] = shown(old_call, pictures)
    if (call_id := turn.get("tool_call_id")) is not None:
        message["tool_call_id"] = _number(call_ids, call_id)
    if refusal := turn.get("refusal"):
        message["refusal"] = safe_text(str(refusal))
    if audio := turn.get("audio"):
        message["audio"] = safe_text(str(audio["transcript"])) if "transcript" in audio else "[audio]"
    if finish_reason not in _ORDINARY:
        message["finish_reason"] = str(finish_reason)
    return message


def _call(call: Any, call_ids: dict[str, str], pictures: Pictures) -> Any:
    call = call if isinstance(call, Mapping) else call.model_dump(exclude_none=True, warnings=False)
    rest = {name: shown(value, pictures) for name, value in call.items() if name not in {"id", "type", "index"}}
    function = rest.pop("function", {})
    ordered = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"id": _number(call_ids, call.get("id")), **ordered, **rest}


def _number(call_ids: dict[str, str], call_id: object) -> str:
    return call_ids.setdefault(str(call_id), f"call_{len(call_ids) + 1}")


def _ending(trajectory: art.Trajectory) -> dict[str, str]:
    """Return how an episode broke off; of a plain trajectory is known what its metrics and metadata say."""
    ending = {}
    reason = getattr(trajectory, "stop_reason", None) or trajectory.metadata.get("stop_reason")
    if reason and reason != StopReason.DONE:
        ending["reason"] = str(reason)
    for name in ("error", "truncated"):
        if trajectory.metrics.get(name) and name not in ending.values():
            ending[name] = "yes"
    failure = getattr(trajectory, "failure", None)
    if failure and failure.kind is not FailureKind.REWARD:
        ending["error"] = safe_text(str(failure))[:500]
    return ending


def common_opening(transcripts: Sequence[Transcript]) -> int:
    """Return how many first messages all of `transcripts` share, leaving each at least its last."""
    shortest = min(len(transcript.messages) for transcript in transcripts)
    first = transcripts[0].messages
    for number in range(shortest - 1):
        if any(transcript.messages[number] != first[number] for transcript in transcripts):
            return number
    return shortest - 1
