"""A tool's schema that a user wrote: kept as it is, and arguments are held against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from artkit.environments.tools.arguments import first_of
from artkit.errors import ConfigurationError, ToolError

__all__ = ["check_against", "function_of", "parameters_of"]


def function_of(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the function of a whole tool, `{"type": "function", "function": {…}}`; None where it is no whole tool."""
    function = schema.get("function") if isinstance(schema, Mapping) else None
    return function if isinstance(function, Mapping) else None


def parameters_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON schema of the arguments, from a whole tool or from that schema itself.

    Raises:
        ConfigurationError: It is neither, or no JSON schema of an object.
    """
    function = function_of(schema)
    if function is not None and not function.get("name"):
        raise ConfigurationError(f"schema={schema!r} names no function", 'give "function" its "name"')
    parameters = schema if function is None else function.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        raise ConfigurationError(
            f"schema={schema!r} does not describe named arguments",
            'give {"type": "object", "properties": {…}}, or a whole {"type": "function", "function": {…}}',
        )
    return parameters


def check_against(parameters: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """Return what holds the arguments of a call against their schema, and raises `ToolError` in words for the model.

    Raises:
        ConfigurationError: It is no JSON schema.
    """
    from jsonschema import Draft202012Validator, SchemaError, validators  # type: ignore[import-untyped]  # no types
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # nor here

    kind = validators.validator_for(parameters, default=Draft202012Validator)
    try:
        kind.check_schema(parameters)
    except SchemaError as error:
        raise ConfigurationError(
            f"schema={parameters!r} is no JSON schema: {error.message}", "mend it there"
        ) from error
    # A registry of one's own: without it, jsonschema fetches what a "$ref" names from the network.
    validator = kind(parameters, registry=REGISTRY)

    def check(arguments: Mapping[str, Any]) -> None:
        problems = [_in_words(error) for error in validator.iter_errors(arguments)]
        if problems:
            raise ToolError(first_of(problems))

    return check


def _in_words(error: Any) -> str:
    where = ".".join(map(str, error.absolute_path))
    message = error.message if len(error.message) <= 200 else f"{error.message[:100]} … {error.message[-100:]}"
    return f"argument {where!r}: {message}" if where else f"arguments: {message}"
