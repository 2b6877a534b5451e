"""One call of one tool."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from artkit.environments.tools.result import ToolResult
from artkit.errors import ArtkitError, EnvironmentContractError, ToolError
from artkit.transport import Deadline, own_exits, run_off_loop

if TYPE_CHECKING:
    from artkit.environments.tools.mark import Tool

__all__ = ["call_tool"]


async def call_tool(
    tool: Tool,
    method: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    timeout_s: float | None,
    after: Collection[asyncio.Future[Any]] = (),
) -> ToolResult:
    """Check the arguments, run the tool and return its result.

    Args:
        tool: What is called.
        method: Its method, bound to the environment.
        arguments: As the model sent them.
        timeout_s: The deadline, in seconds, of a tool that has none of its own; None is no limit.
        after: What must be over before the tool may run; the wait counts towards its deadline.

    Raises:
        ToolError: What is to be answered to the model: the arguments do not fit, the tool took too long, or it raised
            one of the exceptions that it answers.
        Exception: Anything else that the tool raised.
    """
    limit_s = timeout_s if tool.timeout_s is None else tool.timeout_s
    has_begun = False

    def in_words() -> str:
        if has_begun:
            return f"{tool.name} took longer than {limit_s} s"
        return f"{tool.name} was not run: a call before it still ran after {limit_s} s"

    deadline = Deadline(None if limit_s == math.inf else limit_s, in_words, is_result=False)
    try:
        if tool.check is not None:
            tool.check(arguments)
        values = tool.arguments.read(arguments)  # which runs the validators of the tool's own types
        async with deadline:
            if after:
                await asyncio.wait(after)
            has_begun = True
            returned = await _run(tool.name, method, values)
    except Exception as error:
        if deadline.expired:
            raise ToolError(str(error)) from error
        # Those of artkit are told to whoever wrote the tool: no model can mend them.
        if isinstance(error, ArtkitError) or not isinstance(error, tool.answers):
            raise
        raise ToolError(_in_words(error)) from error
    if not isinstance(returned, ToolResult):
        return ToolResult(returned, done=tool.final, outcome=returned if tool.final else None)
    if not tool.final:
        return returned
    outcome = returned.content if returned.outcome is None else returned.outcome
    return ToolResult(returned.content, done=True, reward=returned.reward, metrics=returned.metrics, outcome=outcome)


async def _run(name: str, method: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    with own_exits(f"the tool {name!r}", EnvironmentContractError):
        if inspect.iscoroutinefunction(method):
            return await method(**values)
        call = functools.partial(method, **values)
        returned = await run_off_loop(call, what=f"the tool {name!r}", error=EnvironmentContractError)
        return await returned if inspect.isawaitable(returned) else returned


def _in_words(error: Exception) -> str:
    """Return a `ToolError` in its own words, and any other exception with its type, for many say little without it."""
    text = str(error)
    if isinstance(error, ToolError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
