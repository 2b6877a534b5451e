"""An episode: ART's trajectory that also remembers where it came from."""

from __future__ import annotations

from typing import Any

import art
from pydantic import Field

from artkit.episodes.failure import FailureRecord
from artkit.episodes.stop_reason import StopReason

__all__ = ["Episode"]


class Episode(art.Trajectory):
    """An `art.Trajectory` with its scenario, its outcome and the reason it ended.

    The added fields are excluded from ART's log, parquet and upload; they survive groups, `copy`, `deepcopy` and
    pickle. Turns are kept in `messages_and_choices` with the server's own `Choice` objects.

    Attributes:
        scenario: The scenario that was played.
        outcome: The structured end that the environment reported; JSON-able or a pydantic model.
        stop_reason: Why the episode ended; None while it runs.
        environment_reward: The sum of the step rewards, kept apart from `reward`, which a reward adapter overwrites.
        failure: What went wrong, if anything did.
        member: The position in its group, from 0.
    """

    scenario: Any = Field(default=None, exclude=True, repr=False)
    outcome: Any = Field(default=None, exclude=True, repr=False)
    stop_reason: StopReason | None = Field(default=None, exclude=True)
    environment_reward: float = Field(default=0.0, exclude=True, repr=False)
    failure: FailureRecord | None = Field(default=None, exclude=True, repr=False)
    member: int = Field(default=0, exclude=True, repr=False)
