"""The single-turn scenario: a prompt, and perhaps a label to grade the reply with."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from artkit.scenarios.scenario import Scenario

__all__ = ["PromptScenario"]


class PromptScenario(Scenario):
    """A task that one prompt states.

    Attributes:
        messages: The chat so far, one dict per message, each with its "role". A str is one user message.
        label: What the reply is graded with; any value, never shown to the model.
        tools: The tools that are offered, in the OpenAI format.
        metadata: Whatever else belongs to the task.

    >>> PromptScenario(id="sum-1", messages="What is 2 + 3?", label="5").messages
    [{'role': 'user', 'content': 'What is 2 + 3?'}]
    """

    messages: list[dict[str, Any]] = Field(min_length=1)
    label: Any = None
    tools: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return [{"role": "user", "content": value}] if isinstance(value, str) else value

    @field_validator("messages")
    @classmethod
    def _with_roles(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for number, message in enumerate(value):
            if not isinstance(message.get("role"), str):
                msg = f"message {number} has no role"
                raise ValueError(msg)  # what pydantic turns into an error of the field
        return value
