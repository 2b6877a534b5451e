"""What one attempt at a rollout came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from artkit.bridge import hide_secrets

if TYPE_CHECKING:
    import asyncio

    import art

    from artkit.episodes import Episode, FailurePolicy, FailureRecord

__all__ = ["Attempt", "Attempting", "Failed", "note_played", "played_of", "result_of"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Failed:
    """A rollout that failed before the model's first turn: there is no episode to keep.

    Attributes:
        error: The exception itself.
        record: The same as text, with its kind.
        request_error: The error of a request to the model that `error` is or came from; None where the model is not to
            blame.
        replays: How often it was played before, and failed.
    """

    error: BaseException
    record: FailureRecord
    request_error: BaseException | None = None
    replays: int = 0


# A user's own rollout may return a subclass of ART's trajectory that is no `Episode`; it is passed on as it is.
Attempt: TypeAlias = "art.Trajectory | Failed"


@runtime_checkable
class Attempting(Protocol):
    """A rollout that can say what a failure was. `gather_groups` prefers `attempt` to a plain call.

    `attempt` is called once per member, concurrently for different members; it raises only what must stop the run
    and cancellation.
    """

    @property
    def failure_policy(self) -> FailurePolicy:
        """What follows from each kind of failure."""

    async def attempt(self, model: art.Model[Any, Any], scenario: Any, member: int = 0) -> Attempt:
        """Play `scenario` once and return the episode, whole or partial, or the failure."""


def result_of(attempt: ResultT | Failed) -> ResultT:
    """Return the episode.

    Raises:
        Exception: What the rollout failed with, where there is none.
    """
    if isinstance(attempt, Failed):
        hide_secrets(attempt.error)
        raise attempt.error
    return attempt


def note_played(error: asyncio.CancelledError, episode: Episode) -> None:
    """Have a cancellation carry the episode that was played to its end before it."""
    # No class of its own: `asyncio.timeout` goes by the very type.
    vars(error)["played"] = episode


def played_of(error: asyncio.CancelledError) -> Episode | None:
    """Return the episode that a cancellation carries, or None."""
    return vars(error).get("played")
