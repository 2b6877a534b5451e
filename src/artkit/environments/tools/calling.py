"""One call of one tool."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artkit.environments.tools.result import ToolResult
from artkit.errors import ArtkitError, EnvironmentContractError, ToolError
from artkit.transport import run_off_loop

if TYPE_CHECKING:
    from artkit.environments.tools.mark import Tool

__all__ = ["call_tool"]


async def call_tool(
    tool: Tool, method: Callable[..., Any], arguments: Mapping[str, Any], *, timeout_s: float | None
) -> ToolResult:
    """Check the arguments, run the tool and return its result.

    Args:
        tool: What is called.
        method: Its method, bound to the environment.
        arguments: As the model sent them.
        timeout_s: The deadline, in seconds, of a tool that has none of its own; None is no limit.

    Raises:
        ToolError: What is to be answered to the model: the arguments do not fit, the tool took too long, or it raised
            one of the exceptions that it answers.
        Exception: Anything else that the tool raised.
    """
    if tool.check is not None:
        tool.check(arguments)
    values = tool.arguments.read(arguments)
    limit_s = timeout_s if tool.timeout_s is None else tool.timeout_s
    deadline = asyncio.timeout(None if limit_s == math.inf else limit_s)
    try:
        async with deadline:
            returned = await _run(method, values)
    except Exception as error:
        if isinstance(error, TimeoutError) and deadline.expired():
            raise ToolError(f"{tool.name} took longer than {limit_s} s") from error
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


async def _run(method: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(**values)
    returned = await run_off_loop(functools.partial(method, **values), what="a tool", error=EnvironmentContractError)
    return await returned if inspect.isawaitable(returned) else returned


def _in_words(error: Exception) -> str:
    """Return a `ToolError` in its own words, and any other exception with its type, for many say little without it."""
    text = str(error)
    if isinstance(error, ToolError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
