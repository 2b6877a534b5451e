"""The single turn: a prompt, a reply, the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artkit.environments.environment import Environment
from artkit.environments.step_result import StepResult
from artkit.scenarios import PromptScenario

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    from artkit.environments.action import Action

__all__ = ["SingleTurnEnvironment"]


class SingleTurnEnvironment(Environment[PromptScenario]):
    """Shows the model the messages and tools of a `PromptScenario`. Its reply is the end, and its text the outcome.

    There are no step rewards: the reply is graded by a reward, against the scenario's label. Tools are offered and not
    run; what the model would have called is in the reply.
    """

    max_turns = 1

    def tools(self) -> Sequence[ChatCompletionToolParam]:
        return self._scenario.tools or ()  # type: ignore[return-value]  # OpenAI's typed dicts are plain dicts here

    async def reset(self, scenario: PromptScenario) -> Sequence[ChatCompletionMessageParam]:
        self._scenario = scenario
        return scenario.messages  # type: ignore[return-value]  # as above

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, outcome=action.text)
