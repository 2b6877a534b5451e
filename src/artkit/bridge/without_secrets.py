"""Groups and exceptions without the secrets in their texts, for what is uploaded, logged or raised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from artkit.secrets import scrub, scrub_values

if TYPE_CHECKING:
    import art

__all__ = ["hide_secrets", "without_secrets"]


def without_secrets(groups: Iterable[art.TrajectoryGroup]) -> list[art.TrajectoryGroup]:
    """Return `groups` as they may leave this machine; what holds no secret is returned as it is.

    Changed, in copies, are the texts of logs, metadata and exceptions, and, in messages and tools, the secrets that
    this process is known to use. A reply of the model is never changed: its text belongs to its tokens.
    """
    return [_group(group) for group in groups]


def hide_secrets(error: BaseException) -> None:
    """Take secrets out of the text of `error` and of all it came from, before somebody is shown it.

    The exceptions stay the objects that they are. One whose text is made of what cannot be reached (pydantic's) is
    replaced, where it is the cause of another, by a `RuntimeError` that says the same.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        _clean(link)
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions)
        is_suppressed = link.__suppress_context__
        for name in ("__cause__", "__context__"):
            if (before := getattr(link, name)) is not None:
                _clean(before)
                setattr(link, name, before := _shown(before))
                waiting.append(before)
        link.__suppress_context__ = is_suppressed


def _group(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    import art

    trajectories = [_trajectory(trajectory) for trajectory in group.trajectories]
    exceptions = [_changed(record, _texts(record, "type", "message", "traceback")) for record in group.exceptions]
    metadata, logs = scrub_values(group.metadata), scrub_values(group.logs)
    before = (*group.trajectories, *group.exceptions, group.metadata, group.logs)
    after = (*trajectories, *exceptions, metadata, logs)
    if all(old is new for old, new in zip(before, after, strict=True)):
        return group
    safe = art.TrajectoryGroup(trajectories, metadata=metadata, metrics=group.metrics, logs=logs)
    # ART 0.5.18 takes only exceptions as such when a group is made, not the records that a group holds.
    safe.exceptions = exceptions
    return safe


def _trajectory(trajectory: art.Trajectory) -> Any:
    safe = {
        "messages_and_choices": scrub_values(trajectory.messages_and_choices, known_only=True),
        "additional_histories": _histories(trajectory.additional_histories),
        "tools": scrub_values(trajectory.tools, known_only=True),
        "metadata": scrub_values(trajectory.metadata),
        "logs": scrub_values(trajectory.logs),
    }
    if captured := getattr(trajectory, "exchanges", None):
        safe["exchanges"] = _captured(captured)
    return _changed(trajectory, safe)


def _captured(exchanges: Any) -> Any:
    """Return what ART 0.5.23 and later captured by itself, by protocol: requests, each with its reply."""
    before = {name: getattr(exchanges, name) for name in type(exchanges).model_fields}
    safe = {
        name: [_changed(one, {"request": scrub_values(one.request, known_only=True)}) for one in of]
        for name, of in before.items()
    }
    is_same = all(old is new for name, of in before.items() for old, new in zip(of, safe[name], strict=True))
    return exchanges if is_same else exchanges.model_copy(update=safe)


def _histories(histories: list[Any]) -> list[Any]:
    safe = [
        _changed(history, {"messages_and_choices": scrub_values(history.messages_and_choices, known_only=True)})
        for history in histories
    ]
    return histories if all(old is new for old, new in zip(histories, safe, strict=True)) else safe


def _texts(record: Any, *names: str) -> dict[str, Any]:
    return {name: scrub_values(getattr(record, name)) for name in names}


def _changed(held: Any, safe: dict[str, Any]) -> Any:
    changed = {name: value for name, value in safe.items() if value is not getattr(held, name)}
    return held.model_copy(update=changed) if changed else held


def _clean(error: BaseException) -> None:
    # A user's exception may be broken itself, or refuse to be changed.
    with contextlib.suppress(Exception):
        if (arguments := scrub_values(error.args)) is not error.args:
            error.args = arguments
    for name in (*vars(error), "strerror", "filename", "filename2"):  # an OSError's are not among its variables
        with contextlib.suppress(Exception):
            value = getattr(error, name, None)
            if (safe := scrub_values(value)) is not value:
                setattr(error, name, safe)


def _shown(error: BaseException) -> BaseException:
    """Return `error`, or what says the same where a secret is left in its text."""
    with contextlib.suppress(Exception):
        text = str(error)
        if (safe := scrub(text)) != text:
            return RuntimeError(f"{type(error).__name__}: {safe}").with_traceback(error.__traceback__)
    return error
