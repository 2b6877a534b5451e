"""What the environment answers to an action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["StepResult"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The environment's answer to one action.

    Attributes:
        messages: The messages the model sees next, in order; a str is one user message.
        done: Whether the episode is over.
        reward: The reward of this step, finite. The sum over the episode is what `EnvironmentReward` gives.
        metrics: Numbers and bools to log: numbers are summed over turns, of bools the last value holds.
        outcome: The structured end of the episode, JSON-able or a pydantic model; kept in the recording.
    """

    messages: Sequence[Any] | str = ()
    done: bool = False
    reward: float = 0.0
    metrics: Mapping[str, float | int | bool] = field(default_factory=dict)
    outcome: Any = None
