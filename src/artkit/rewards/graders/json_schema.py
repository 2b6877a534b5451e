"""A JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from artkit.errors import ConfigurationError
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Reply, TextGrader
from artkit.rewards.score import Score

__all__ = ["json_schema"]


def json_schema(schema: Mapping[str, Any], *, reply: Reply = answer_text) -> TextGrader:
    """Give 1 to a reply that is JSON and fits `schema`, else 0 with what is wrong as the explanation.

    The reply must be JSON and nothing else: no prose, no Markdown fence, no NaN. "format" is not checked, and a "$ref"
    that leads out of the schema is not followed.

    Args:
        schema: The schema; its "$schema" says which draft it is written in, 2020-12 if it says nothing.
        reply: Where to find the reply.

    Raises:
        ConfigurationError: `schema` is no JSON schema.

    Source: https://json-schema.org/draft/2020-12, by the `jsonschema` package.

    >>> grader = json_schema({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}})
    >>> grader.grade('{"city": "Paris"}', None)
    Score(value=1.0, metrics={}, explanation=None)
    >>> grader.grade('{"city": 75}', None)
    Score(value=0.0, metrics={}, explanation="$.city: 75 is not of type 'string'")
    """
    validator = _validator(schema)

    def compare(said: str, _: Any) -> Score:
        try:
            value = json.loads(said, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            return Score(0.0, explanation=f"no JSON: {error}")
        problem = next(iter(validator.iter_errors(value)), None)
        if problem is None:
            return Score(1.0)
        return Score(0.0, explanation=f"{problem.json_path}: {problem.message}")

    return TextGrader("json_schema(…)", compare, _nothing, reply)


def _validator(schema: Mapping[str, Any]) -> Any:
    # Late: they are slow to import, and few rewards need them.
    from jsonschema import SchemaError, validators  # type: ignore[import-untyped]  # it ships no types
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # nor does it

    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"schema={schema!r} is no mapping", "give the schema as a dict")
    kind = validators.validator_for(schema, default=validators.validator_for({}))
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        msg = f"schema is no JSON schema: {error.json_path}: {error.message}"
        raise ConfigurationError(msg, "mend it") from error
    # A registry of one's own: without it, jsonschema fetches what a "$ref" names from the network.
    return kind(schema, registry=REGISTRY)


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)


def _nothing(_: object) -> str:
    return ""
