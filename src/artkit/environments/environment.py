"""The environment: what a user subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from artkit.transport import Deadline

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    from artkit.environments.action import Action
    from artkit.environments.step_result import StepResult

__all__ = ["Environment"]

ScenarioT = TypeVar("ScenarioT")


class Environment(ABC, Generic[ScenarioT]):
    """A text world that one rollout plays once.

    One instance is made per rollout, by the class or a factory without arguments. `reset` is called once, then `tools`
    once, then `step` for each reply of the model, and `close` exactly once on every path. Calls never overlap.
    Randomness comes from the scenario (a seed in it), never from a global generator or the clock: the same scenario and
    the same actions give the same episode.

    Attributes:
        max_turns: How many replies of the model one episode may hold.
    """

    max_turns: int = 10

    def tools(self) -> Sequence[ChatCompletionToolParam]:
        """Return the tools offered to the model; asked once, after `reset`. The default is none."""
        return ()

    @abstractmethod
    async def reset(self, scenario: ScenarioT) -> Sequence[ChatCompletionMessageParam] | str:
        """Begin the episode of `scenario` and return the first messages; a str is one user message."""

    @abstractmethod
    async def step(self, action: Action) -> StepResult:
        """Answer one reply of the model."""

    async def step_within(self, action: Action, timeout_s: float | None) -> StepResult:
        """Answer one reply of the model by `step`, which may take `timeout_s` seconds; None is no limit.

        This is what a rollout calls. Only an environment that passes its calls on to another one has to care: passed on
        too, it lets that one give each of its tools the time.

        Raises:
            TimeoutError: `step` took longer.
        """
        async with Deadline(timeout_s, lambda: f"step() took longer than {timeout_s} s"):
            return await self.step(action)

    async def close(self) -> None:
        """Release what `reset` and `step` took. Called exactly once, on every path."""
