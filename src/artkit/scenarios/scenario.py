"""A scenario: one task, as data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Scenario"]


class Scenario(BaseModel):
    """One task. Subclass it with the fields that your environment needs.

    A scenario is frozen, and everything random in its episode follows from it.

    Attributes:
        id: Names the task; equal ids are the same task.

    >>> class Sum(Scenario):
    ...     left: int
    ...     right: int
    >>> Sum(id="2+3", left=2, right=3)
    Sum(id='2+3', left=2, right=3)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
