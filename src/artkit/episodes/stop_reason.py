"""Why an episode ended."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StopReason"]


class StopReason(StrEnum):
    """Why an episode ended. A limit never raises: it ends the episode with one of these."""

    DONE = "done"
    """The environment said so."""
    MAX_TURNS = "max_turns"
    """The smaller of the environment's and the limit's turns was reached."""
    TRUNCATED = "truncated"
    """The model's reply was cut off at its token limit."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation outgrew the model's context."""
    TIMEOUT = "timeout"
    """A deadline passed: the episode's, or that of one step or request."""
    ERROR = "error"
    """An exception; `failure` on the episode says which."""
