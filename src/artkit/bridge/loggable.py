"""Groups in a form that ART's log can neither fail on nor misreport."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice, ChoiceLogprobs
from openai.types.chat.chat_completion_token_logprob import ChatCompletionTokenLogprob
from pydantic import BaseModel

from artkit.bridge.loggable_metrics import loggable_metrics
from artkit.bridge.safe_values import is_json, safe_json, safe_number, safe_scalar, safe_text
from artkit.bridge.without_secrets import without_secrets

if TYPE_CHECKING:
    import art

__all__ = ["loggable"]


def loggable(
    groups: Iterable[art.TrajectoryGroup], *, is_taken: Callable[[str], bool] = lambda _: False
) -> list[art.TrajectoryGroup]:
    """Return `groups` so that `model.log` takes them; what is fine already is returned as it is.

    Changed, in copies, is only what ART's log would fail on, report wrongly or give away:

    - secrets become `[secret]`, as `without_secrets` has it;
    - lone surrogates in any text become U+FFFD;
    - metrics that are no finite number are dropped, NumPy's numbers become Python's;
    - metrics named like ART's own (`reward`, `exception_rate`, …), and those of trajectories whose name `is_taken`, get
      the prefix `metric_`;
    - metadata that is no JSON scalar becomes its JSON text;
    - content blocks (pictures) become text where this ART's file format has no place for them;
    - a reply that its own type no longer describes (an unheard-of finish reason) becomes plain data;
    - a trajectory whose reward is no finite number leaves the copy and is counted among its exceptions.
    """
    return [_group(group, is_taken) for group in without_secrets(groups)]


def _group(group: art.TrajectoryGroup, is_taken: Callable[[str], bool]) -> art.TrajectoryGroup:
    import art
    from art.trajectories import PydanticException

    trajectories, exceptions = [], [_exception(exception) for exception in group.exceptions]
    for trajectory in group.trajectories:
        if safe_number(trajectory.reward) is None:
            message = f"the reward is {trajectory.reward!r}, no finite number"
            exceptions.append(PydanticException(type="RewardError", message=message, traceback=""))
        else:
            trajectories.append(_trajectory(trajectory, is_taken))
    metadata, metrics, logs = _metadata(group.metadata), _metrics(group.metrics, lambda _: False), _logs(group.logs)
    before = (*group.trajectories, *group.exceptions, group.metadata, group.metrics, group.logs)
    after = (*trajectories, *exceptions, metadata, metrics, logs)
    if len(before) == len(after) and all(old is new for old, new in zip(before, after, strict=True)):
        return group
    safe = art.TrajectoryGroup(trajectories, metadata=metadata, metrics=metrics, logs=logs)
    # ART 0.5.18 takes only exceptions as such when a group is made, not the records that a group holds.
    safe.exceptions = exceptions
    return safe


def _trajectory(trajectory: art.Trajectory, is_taken: Callable[[str], bool]) -> art.Trajectory:
    safe = {
        "messages_and_choices": _items(trajectory.messages_and_choices),
        "additional_histories": _histories(trajectory.additional_histories),
        "tools": trajectory.tools if is_json(trajectory.tools) else safe_json(trajectory.tools),
        "reward": trajectory.reward if type(trajectory.reward) is float else safe_number(trajectory.reward),
        "metrics": _metrics(trajectory.metrics, is_taken),
        "metadata": _metadata(trajectory.metadata),
        "logs": _logs(trajectory.logs),
    }
    changed = {name: value for name, value in safe.items() if value is not getattr(trajectory, name)}
    return trajectory.model_copy(update=changed) if changed else trajectory


def _histories(histories: list[Any]) -> list[Any]:
    safe = []
    for history in histories:
        items = _items(history.messages_and_choices)
        unchanged = items is history.messages_and_choices
        safe.append(history if unchanged else history.model_copy(update={"messages_and_choices": items}))
    return _same_if_unchanged(histories, safe)


def _items(items: list[Any]) -> list[Any]:
    return _same_if_unchanged(items, [_item(item) for item in items])


def _item(item: Any) -> Any:
    if isinstance(item, BaseModel):
        return item if _is_sound(item) else safe_json(_without_routing(item))
    if not isinstance(item, Mapping):
        return item
    has_blocks = not isinstance(item.get("content"), str | None)
    if is_json(item) and not (has_blocks and not _file_holds_blocks()):
        return item
    message = safe_json(item)
    if has_blocks and not _file_holds_blocks():
        message["content"] = _text_of_blocks(message["content"])
    return message


def _is_sound(item: BaseModel) -> bool:
    """Whether ART's writer can dump `item` and read it back as what it is: what it does itself under 0.5.23."""
    left_out = _routing_keys()
    if isinstance(item, Choice) and _has_plain_logprobs(item):
        # Thousands of small objects in a reply of some length: to write and read them back takes milliseconds.
        left_out = {*left_out, "logprobs"}
    try:
        json_text = item.model_dump_json(exclude=left_out, warnings="error")
        if isinstance(item, Choice):
            Choice.model_validate_json(json_text)
    except ValueError:  # pydantic's own errors and broken Unicode alike
        return False
    return True


def _has_plain_logprobs(choice: Choice) -> bool:
    """Whether the log probabilities are of the one kind that is seen to be sound at a glance: a text and a number each.

    False says nothing: whatever else there is, alternatives and a server's own fields included, is looked at in full.
    """
    logprobs = choice.logprobs
    if logprobs is None:
        return True
    if type(logprobs) is not ChoiceLogprobs or logprobs.model_extra or logprobs.refusal or not logprobs.content:
        return False
    if set(map(type, logprobs.content)) != {ChatCompletionTokenLogprob}:
        return False
    held = [vars(token) for token in logprobs.content]
    tokens: list[Any] = [one.get("token") for one in held]
    numbers: list[Any] = [one.get("logprob") for one in held]
    bytes_of_tokens: list[Any] = [one.get("bytes") or () for one in held]
    return (
        set(map(type, tokens)) == {str}
        and safe_text(joined := "".join(tokens)) is joined
        and set(map(type, numbers)) == {float}
        and all(map(math.isfinite, numbers))
        and set(map(type, bytes_of_tokens)) <= {list, tuple}
        and set(map(type, chain.from_iterable(bytes_of_tokens))) <= {int}
        and all(one.get("top_logprobs") == [] for one in held)
        and not any(token.model_extra for token in logprobs.content)
    )


def _without_routing(item: BaseModel) -> dict[str, Any]:
    return item.model_dump(mode="python", exclude=_routing_keys(), warnings=False)


def _routing_keys() -> set[str]:
    """Return the keys of a reply that ART keeps for training and leaves out of its log."""
    import art.openai

    key = getattr(art.openai, "ART_MOE_ROUTING_METADATA_KEY", None)
    return set() if key is None else {key}


def _file_holds_blocks() -> bool:
    """Whether ART's trajectory files keep whole messages (from format 2), rather than one text of each."""
    from art.utils import trajectory_logging

    return getattr(trajectory_logging, "_FORMAT_VERSION", 1) > 1


def _text_of_blocks(blocks: Any) -> str:
    if not isinstance(blocks, list):
        return str(blocks)
    return "\n".join(
        str(block["text"]) if isinstance(block, dict) and "text" in block else f"[{_kind(block)}]" for block in blocks
    )


def _kind(block: Any) -> str:
    return str(block.get("type", "content")) if isinstance(block, dict) else str(block)


def _exception(exception: Any) -> Any:
    texts = {name: safe_text(getattr(exception, name)) for name in ("type", "message", "traceback")}
    changed = {name: text for name, text in texts.items() if text != getattr(exception, name)}
    return exception.model_copy(update=changed) if changed else exception


def _metrics(metrics: dict[str, Any], is_taken: Callable[[str], bool]) -> dict[str, Any]:
    safe = loggable_metrics(metrics, is_taken=is_taken)
    unchanged = list(safe) == list(metrics) and all(value is metrics[name] for name, value in safe.items())
    return metrics if unchanged else safe


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    safe = {safe_text(str(name)): safe_scalar(value) for name, value in metadata.items()}
    unchanged = list(safe) == list(metadata) and all(value is metadata[name] for name, value in safe.items())
    return metadata if unchanged else safe


def _logs(logs: list[Any]) -> list[Any]:
    return _same_if_unchanged(logs, [safe_text(str(log)) for log in logs])


def _same_if_unchanged(before: list[Any], after: list[Any]) -> list[Any]:
    return before if all(old is new for old, new in zip(before, after, strict=True)) else after
