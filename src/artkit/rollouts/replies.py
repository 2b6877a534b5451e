"""What becomes of the requests of rollouts to the model, told to their gather."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artkit.rollouts.attempt import Failed

__all__ = ["Requests", "Unanswered", "nested_apart", "own_requests", "requests_told_to", "tell_request_error"]


@dataclass(slots=True)
class Unanswered:
    """How many rollouts in a row found no connection to the model's server.

    By itself, and no part of the gather: what was given up keeps its context for as long as it runs, and in that whom
    it tells. So it must not lead to what others failed with.
    """

    count: int = 0

    def note_reply(self) -> None:
        """The model has replied, or a rollout did not fail: its server can be reached."""
        self.count = 0


@dataclass(slots=True)
class Requests:
    """The requests of one rollout.

    Attributes:
        on_reply: Called for each reply of the model.
        on_fatal: Called with a failure that no other rollout can escape, before its environment is closed.
        error: The error of a request that the partial episode ended with; None where it ended otherwise.
    """

    on_reply: Callable[[], None]
    on_fatal: Callable[[Failed], None]
    error: BaseException | None = None

    def take_error(self) -> BaseException | None:
        """Return `error` and forget it: what was given up keeps these, and its traceback leads to the environment."""
        error, self.error = self.error, None
        return error


_requests: ContextVar[Requests | None] = ContextVar("artkit_requests", default=None)


@contextlib.contextmanager
def requests_told_to(on_reply: Callable[[], None], on_fatal: Callable[[Failed], None]) -> Iterator[Requests]:
    """Have these called for the rollout that is started inside, and yield its requests; see `Requests`."""
    requests = Requests(on_reply, on_fatal)
    token = _requests.set(requests)
    try:
        yield requests
    finally:
        _requests.reset(token)


def own_requests() -> Requests:
    """Return the requests of the rollout that begins now, as its gather knows them; of nobody's where there is none."""
    return _requests.get() or Requests(lambda: None, lambda _: None)


@contextlib.contextmanager
def nested_apart() -> Iterator[None]:
    """Keep from the gather what becomes of rollouts that are played inside one of its own.

    An environment may play others, with another model, and be ready for their failures.
    """
    token = _requests.set(None)
    try:
        yield
    finally:
        _requests.reset(token)


def tell_request_error(error: BaseException | None) -> None:
    """Tell which error of a request has ended a partial episode; None that it was something else."""
    if (requests := _requests.get()) is not None:
        requests.error = error
