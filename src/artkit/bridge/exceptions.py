"""ART's own exceptions: the record in a group, and the loss of the inference server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from artkit.secrets import scrub

if TYPE_CHECKING:
    from art.trajectories import PydanticException

__all__ = ["FailureLike", "error_chain", "group_exception", "is_serving_unavailable"]


class FailureLike(Protocol):
    """An exception as text, such as `FailureRecord`."""

    @property
    def type(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def traceback(self) -> str: ...


def group_exception(record: FailureLike) -> PydanticException:
    """Return `record` in the form that `TrajectoryGroup.exceptions` holds, without secrets: backends upload it."""
    from art.trajectories import PydanticException

    return PydanticException(type=record.type, message=scrub(record.message), traceback=scrub(record.traceback))


def is_serving_unavailable(error: BaseException) -> bool:
    """Whether ART says, here or anywhere in the causes of `error`, that its inference server is gone for good."""
    # An ART that has no such error, or is not loaded, cannot have raised it.
    kind = getattr(sys.modules.get("art.errors"), "LocalServingUnavailableError", None)
    return isinstance(kind, type) and any(isinstance(link, kind) for link in error_chain(error))


def error_chain(error: BaseException, *, with_suppressed: bool = False) -> Iterator[BaseException]:
    """Yield `error` and everything it came from, each once: causes, contexts and the members of groups.

    Args:
        error: Where to begin.
        with_suppressed: Whether to yield what was being handled in front of a `raise … from` too, which says that it
            was something else that led to the error.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions)
        is_meant = with_suppressed or not link.__suppress_context__
        before = (link.__context__ if is_meant else None, link.__cause__)
        waiting.extend(one for one in before if one is not None)
