"""The environment whose world is reached by tools."""

from __future__ import annotations

import asyncio
import copy
import reprlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from artkit.bridge.safe_values import safe_number
from artkit.environments.environment import Environment, ScenarioT
from artkit.environments.step_result import StepResult
from artkit.environments.tools.calling import call_tool
from artkit.environments.tools.collecting import Method, collect_tools
from artkit.environments.tools.content import as_content
from artkit.environments.tools.result import ToolResult
from artkit.errors import EnvironmentContractError, ToolError
from artkit.transport import first_failure_group
from artkit.transport.off_loop import noted_threads

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionToolParam

    from artkit.environments.action import Action, ToolCall

__all__ = ["ToolEnvironment"]


class ToolEnvironment(Environment[ScenarioT]):
    """Runs the methods marked `@tool` that the model calls, and answers each call under its id.

    A subclass marks its tools and implements `reset`. The episode ends at a reply without calls, whose text is the
    outcome, or at a tool marked `@tool(final=True)`, whose return value is.

    The calls of one reply run in order, one after the other; side by side where every one of them is of a tool marked
    `parallel=True`. A call that cannot be run (unknown tool, bad arguments), that failed in a way that its tool
    answers, or that took too long is answered to the model and counted in the metric `tool_errors`, and the episode
    goes on. Any other exception is a failure of the environment.

    A tool that is not async and took too long runs on in its thread. In a rollout, the next call waits until it has
    ended, within a deadline of its own, and so does `close`: no two touch the environment at once.

    Attributes:
        tool_timeout_s: How long one call may take, in seconds, where its tool has no limit of its own. None is no
            limit, for which a rollout sets `Limits.tool_timeout_s`.

    >>> from artkit.environments import tool
    >>> class Desk(ToolEnvironment[Any]):
    ...     async def reset(self, scenario):
    ...         return "What does a lamp cost?"
    ...
    ...     @tool
    ...     def price(self, item: str) -> float:
    ...         "Look up what an item costs."
    ...         return {"lamp": 20.0}[item]
    >>> [tool["function"]["name"] for tool in Desk().tools()]
    ['price']
    """

    tool_timeout_s: float | None = None

    __tools: dict[str, Method]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.__tools = collect_tools(cls, reserved=dir(ToolEnvironment))

    def tools(self) -> Sequence[ChatCompletionToolParam]:
        """Return the schemas of the marked methods, in the order of their definition."""
        schemas = [copy.deepcopy(method.tool.schema) for method in self.__tools.values()]
        return cast("list[ChatCompletionToolParam]", schemas)

    async def step(self, action: Action) -> StepResult:
        """Answer every tool call of the reply, or end with a reply that has none."""
        if not action.tool_calls:
            return await self.on_reply(action)
        if all(call.name in self.__tools and self.__tools[call.name].tool.parallel for call in action.tool_calls):
            after = noted_threads()
            async with first_failure_group() as group:
                tasks = [group.create_task(self.__answer(call, action, after)) for call in action.tool_calls]
            results = [task.result() for task in tasks]
        else:
            results = []
            for call in action.tool_calls:
                is_over = any(result.done for result in results)
                # Each call must have an answer, and what comes after the end has no effect on it.
                results.append(
                    ToolResult("not run: the episode is over")
                    if is_over
                    else await self.__answer(call, action, noted_threads())
                )
        return _joined(action.tool_calls, results)

    async def step_within(self, action: Action, timeout_s: float | None) -> StepResult:
        """Answer one reply; `timeout_s` is for each of its calls, so that one that takes too long can be answered."""
        if not action.tool_calls:
            return await super().step_within(action, timeout_s)
        if self.tool_timeout_s is None:
            self.tool_timeout_s = timeout_s
        return await self.step(action)

    async def on_reply(self, action: Action) -> StepResult:
        """Answer a reply without tool calls. The default ends the episode with its text as the outcome."""
        return StepResult(done=True, outcome=action.text)

    async def __answer(self, call: ToolCall, action: Action, after: Collection[asyncio.Future[Any]]) -> ToolResult:
        try:
            if action.finish_reason == "length":
                raise ToolError("not run: the reply was cut off at its token limit")  # noqa: TRY301
            if call.error is not None:
                raise ToolError(call.error)  # noqa: TRY301
            if call.name not in self.__tools:
                raise ToolError(self.__unknown(call.name))  # noqa: TRY301
            attribute, tool = self.__tools[call.name]
            method = getattr(self, attribute)
            if not callable(method):
                raise EnvironmentContractError(  # not for the model: it cannot mend it
                    f"self.{attribute} is a tool, and became {reprlib.repr(method)}", "give the attribute another name"
                )
            result = await call_tool(tool, method, call.arguments, timeout_s=self.tool_timeout_s, after=after)
        except ToolError as error:
            return ToolResult(str(error), metrics={"tool_errors": 1})
        return result

    def __unknown(self, name: str) -> str:
        tools = ", ".join(map(repr, self.__tools)) or "none"
        said = f"there is no tool {name!r}" if name else "the call names no tool"
        return f"{said}, the tools are: {tools}"


def _joined(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> StepResult:
    """Return the results of all calls as that of one step."""
    metrics: dict[str, float | int | bool] = {}
    outcome = None
    for result in results:
        outcome = result.outcome if result.outcome is not None else outcome
        for name, value in result.metrics.items():
            number = safe_number(value) or 0  # a ToolResult holds finite numbers of any kind
            metrics[name] = number if isinstance(number, bool) else metrics.get(name, 0) + number
    messages = [
        {"role": "tool", "tool_call_id": call.id, "content": as_content(result.content, f"the tool {call.name!r}")}
        for call, result in zip(calls, results, strict=True)
    ]
    return StepResult(
        messages,
        done=any(result.done for result in results),
        reward=sum(safe_number(result.reward) or 0 for result in results),  # finite numbers, as above
        metrics=metrics,
        outcome=outcome,
    )
