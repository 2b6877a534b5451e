"""A JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from artkit.errors import RewardError
from artkit.rewards.graders.json_validator import json_validator
from artkit.rewards.graders.reply import answer_text
from artkit.rewards.graders.text_grader import Reply, TextGrader, nothing_expected
from artkit.rewards.score import Score

__all__ = ["json_schema"]


def json_schema(schema: Mapping[str, Any], *, reply: Reply = answer_text) -> TextGrader:
    """Give 1 to a reply that is JSON and fits `schema`, else 0 with what is wrong as the explanation.

    The reply must be JSON and nothing else: no prose, no Markdown fence, no NaN. "format" is not checked, and a "$ref"
    that leads out of the schema is refused. Patterns are those of the `regex` package, with a deadline of a second
    each: an episode that passes it is left unscored.

    Args:
        schema: The schema; its "$schema" says which draft it is written in, 2020-12 if it says nothing.
        reply: Where to find the reply.

    Raises:
        ConfigurationError: `schema` is no JSON schema, or refers to what it does not hold.

    Source: https://json-schema.org/draft/2020-12, by the `jsonschema` package.

    >>> grader = json_schema({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}})
    >>> grader.grade('{"city": "Paris"}', None)
    Score(value=1.0, metrics={}, explanation=None)
    >>> grader.grade('{"city": 75}', None)
    Score(value=0.0, metrics={}, explanation="$.city: 75 is not of type 'string'")
    """
    validator = json_validator(schema)

    def compare(said: str, _: Any) -> Score:
        try:
            value = json.loads(said, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            return Score(0.0, explanation=f"no JSON: {error}")
        try:
            problem = next(iter(validator.iter_errors(value)), None)
        except TimeoutError:
            msg = f"a pattern of the schema took too long on a reply of {len(said)} characters"
            raise RewardError(msg, "write it without a repetition inside a repetition, such as (a+)+") from None
        except (ArithmeticError, RecursionError) as error:  # no value that a schema can mean
            return Score(0.0, explanation=f"it cannot be checked: {type(error).__name__}: {error}")
        if problem is None:
            return Score(1.0)
        return Score(0.0, explanation=f"{problem.json_path}: {problem.message}")

    return TextGrader("json_schema(…)", compare, nothing_expected, reply)


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)
