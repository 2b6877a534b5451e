"""The mark that makes a method a tool."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from artkit.environments.tools.arguments import Arguments
from artkit.environments.tools.docstring import read_docstring
from artkit.environments.tools.given_schema import check_against, function_of, parameters_of
from artkit.errors import ConfigurationError, ToolError

__all__ = ["Tool", "marked", "tool"]

MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_MARK = "__artkit_tool__"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANSWERED = (ValueError, TypeError, LookupError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A method that the model may call; `tool` says what the fields mean.

    Attributes:
        name: What the model calls it.
        schema: The tool as the server gets it.
        arguments: How the arguments of a call are read.
        check: Holds arguments against a schema that was given; None where it follows from the annotations.
    """

    name: str
    schema: Mapping[str, Any]
    arguments: Arguments
    check: Callable[[Mapping[str, Any]], None] | None
    final: bool
    parallel: bool
    timeout_s: float | None
    answers: tuple[type[Exception], ...]


@overload
def tool(method: MethodT, /) -> MethodT: ...
@overload
def tool(
    *,
    final: bool = False,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    parallel: bool = False,
    timeout_s: float | None = None,
    answers: tuple[type[Exception], ...] = _ANSWERED,
) -> Callable[[MethodT], MethodT]: ...
def tool(
    method: Callable[..., Any] | None = None,
    /,
    *,
    final: bool = False,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    parallel: bool = False,
    timeout_s: float | None = None,
    answers: tuple[type[Exception], ...] = _ANSWERED,
) -> Any:
    """Mark a method of a `ToolEnvironment` as a tool that the model may call, as `@tool` or `@tool(…)`.

    The method stays as it is. Its name, its docstring (Google's style, NumPy's or Sphinx's) and the annotations of its
    arguments become the schema; what a model sends is checked and converted to those annotations before the call. It
    may be `async`; if not, it runs in a thread of its own. What it returns is the answer: a text, JSON data, content
    blocks, or a `ToolResult`.

    Args:
        method: The method, in the form without arguments.
        final: Whether a call ends the episode, with the return value as its outcome. One that fails is answered, and
            the episode goes on.
        name: What the model calls it; the default is the method's name.
        description: What the model reads of it; the default is the docstring, up to its first section.
        schema: The arguments as a JSON schema, or a whole tool with its name and description; kept as it is.
        parallel: Whether it may run while other tools of the same reply run, all of which must say so.
        timeout_s: How long one call may take, in seconds; None is the limit of the rollout.
        answers: The exceptions whose text is answered to the model, besides `ToolError`. Any other is a failure of the
            environment.

    Raises:
        EnvironmentContractError: An argument has no annotation, or one that no model can fill.
        ConfigurationError: An argument of the mark itself that cannot work.

    >>> @tool
    ... def add(self, left: int, right: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         left: The first.
    ...     '''
    ...     return left + right
    >>> marked(add).schema["function"]["parameters"]["properties"]
    {'left': {'type': 'integer', 'description': 'The first.'}, 'right': {'default': 1, 'type': 'integer'}}
    """
    local_names = _names_around_the_mark()

    def mark(method: MethodT) -> MethodT:
        made = _make(
            method, local_names, final=final, name=name, description=description, given=schema, parallel=parallel,
            timeout_s=timeout_s, answers=answers,
        )  # fmt: skip
        setattr(method, _MARK, made)
        return method

    return mark if method is None else mark(method)


def marked(value: object) -> Tool | None:
    """Return the tool that `value` was marked as, if it was."""
    found = getattr(getattr(value, "__func__", value), _MARK, None)  # below a staticmethod
    return found if isinstance(found, Tool) else None


def _make(
    method: Callable[..., Any],
    local_names: Mapping[str, Any],
    *,
    final: bool,
    name: str | None,
    description: str | None,
    given: Mapping[str, Any] | None,
    parallel: bool,
    timeout_s: float | None,
    answers: tuple[type[Exception], ...],
) -> Tool:
    if not inspect.isroutine(method) or isinstance(method, staticmethod | classmethod):
        raise ConfigurationError(f"@tool was given {method!r}", "put it on a plain method, as @tool or @tool(…)")
    if final and parallel:
        raise ConfigurationError("a tool is final and parallel", "what ends the episode runs alone: leave one out")
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigurationError(f"timeout_s={timeout_s!r} is not positive", "give more than 0, or None for the limit")
    about, of_arguments = read_docstring(method.__doc__)
    arguments = Arguments.of(method, descriptions=of_arguments, local_names=local_names, is_given=given is not None)
    parameters = arguments.schema if given is None else parameters_of(given)
    whole = function_of(given) if given is not None else None
    if whole is not None and (name, description) != (None, None):
        raise ConfigurationError("a whole tool was given beside a name or description", "write them into the schema")
    called = str(whole["name"] if whole is not None else name or method.__name__)
    if not _NAME.fullmatch(called):
        raise ConfigurationError(f"name={called!r} is no name of a tool", "give 1 to 64 of a-z, A-Z, 0-9, _ and -")
    about = about if description is None else description
    function = {"name": called, **({"description": about} if about else {}), "parameters": parameters}
    return Tool(
        name=called,
        schema={"type": "function", "function": function} if whole is None or given is None else given,
        arguments=arguments,
        check=None if given is None else check_against(parameters),
        final=final,
        parallel=parallel,
        timeout_s=timeout_s,
        answers=(ToolError, *_exceptions(answers)),
    )


def _exceptions(answers: Any) -> tuple[type[Exception], ...]:
    kinds = answers if isinstance(answers, tuple) else (answers,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise ConfigurationError(f"answers={kind!r} is no class of exceptions", "give a tuple such as (OSError,)")
    return kinds


def _names_around_the_mark() -> dict[str, Any]:
    """Return what annotations may name beside globals: the locals of the class and of the function that holds it."""
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    for _ in range(2):  # out of here, and out of `tool`
        frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break  # a function: what it does not see, the class does not see either
        frame = frame.f_back
    return names
