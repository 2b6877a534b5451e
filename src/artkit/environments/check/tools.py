"""Whether what `tools()` returns are tools that a model can be offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from artkit.environments.check.arguments import is_schema
from artkit.environments.check.plain import plain

__all__ = ["tools_problem"]

# A schema with one of these may describe an object without saying so.
_OF_OBJECTS = {"properties", "$ref", "anyOf", "oneOf", "allOf", "additionalProperties"}


def tools_problem(tools: Any) -> str:
    """Return what is wrong with `tools`; "" where nothing is, or where it is for the turn loop to refuse them.

    >>> tools_problem([{"type": "function", "function": {"name": "look", "parameters": {"type": "text"}}}])
    "the tool 'look' whose parameters are no JSON schema of an object: {'type': 'text'}"
    """
    if not isinstance(tools, Sequence) or not all(isinstance(tool, Mapping) for tool in tools):
        return ""
    names: Counter[str] = Counter()
    for tool in tools:
        if tool.get("type", "function") != "function":
            continue  # a server may know other kinds
        function = tool.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            form = '{"type": "function", "function": {"name": …}}'
            return f"{plain(tool)!r}, which has no name: a tool is {form}"
        names[name] += 1
        parameters = function.get("parameters")
        if parameters and not _is_of_an_object(parameters):
            return f"the tool {name!r} whose parameters are no JSON schema of an object: {plain(parameters)!r}"
    return next((f"{count} tools with the name {name!r}" for name, count in names.items() if count > 1), "")


def _is_of_an_object(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not is_schema(schema):
        return False
    kind = schema.get("type")
    return kind == "object" or (kind is None and not _OF_OBJECTS.isdisjoint(schema))
