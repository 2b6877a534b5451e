"""What a tool answers, beyond what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artkit.bridge.safe_values import safe_number
from artkit.errors import EnvironmentContractError

__all__ = ["ToolResult"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns where the answer to the model is not all.

    Attributes:
        content: The answer: a text, JSON data, a pydantic model, or a list of content blocks.
        done: Whether the episode is over.
        reward: The reward of this call, finite. Rewards of one turn add up.
        metrics: Numbers and bools to log, as in `StepResult`.
        outcome: The structured end of the episode; for a final tool, None stands for the content.

    Raises:
        EnvironmentContractError: A reward or metric that is no finite number.
    """

    content: Any = ""
    done: bool = field(default=False, kw_only=True)
    reward: float = field(default=0.0, kw_only=True)
    metrics: Mapping[str, float | int | bool] = field(default_factory=dict, kw_only=True)
    outcome: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, value in (("reward", self.reward), *self.metrics.items()):
            if safe_number(value) is None:
                raise EnvironmentContractError(
                    f"a ToolResult has {name}={value!r}", "give finite numbers and bools; leave out what is unknown"
                )
