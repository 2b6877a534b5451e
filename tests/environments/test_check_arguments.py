"""Random arguments of tools."""

from __future__ import annotations

import random
from typing import Any

import jsonschema
import pytest

from artkit.environments.check.arguments import random_arguments

NODE = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "bounds": {"n": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6}, "x": {"type": "number", "maximum": 0}},
    "multiples": {"n": {"type": "integer", "minimum": 5, "multipleOf": 7}, "x": {"type": "number", "multipleOf": 0.5}},
    "texts": {"a": {"type": "string", "minLength": 9}, "b": {"type": "string", "maxLength": 2}},
    "formats": {"day": {"type": "string", "format": "date"}, "who": {"type": "string", "format": "email"}},
    "choices": {"a": {"enum": [1, "b", None]}, "b": {"const": 3}, "c": {"type": ["integer", "null"]}},
    "unions": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "b": {"oneOf": [{"type": "boolean"}, {"type": "null"}]}},
    "all of": {"a": {"allOf": [{"type": "object", "required": ["x"]}, {"properties": {"x": {"type": "integer"}}}]}},
    "arrays": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 2}, "b": {"type": "array", "prefixItems": [{"type": "string"}]}},
    "recursive": {"a": {"$ref": "#/$defs/node"}},
    "anything": {"a": {}, "b": True},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_arguments_are_valid(name: str) -> None:
    """A call that no schema allows would blame an environment for what no model is asked to say."""
    properties = SCHEMAS[name]
    schema = {"type": "object", "properties": properties, "required": list(properties), "$defs": {"node": NODE}}

    drawn = [random_arguments(random.Random(seed), schema, ["lamp", "door"]) for seed in range(50)]

    validator = jsonschema.Draft202012Validator(schema)
    assert all(arguments is not None and validator.is_valid(arguments) for arguments in drawn)


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{9}$"}},
            "required": ["a"],
        },
        {"type": "object", "properties": {"a": {"type": 3}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}, "required": ["a"]},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        "no schema",
    ],
    ids=["a pattern", "no schema inside", "a reference out of it", "impossible", "a text"],
)
def test_where_no_arguments_are_found_there_are_none(schema: Any) -> None:
    """Nothing is fetched, nothing is guessed: the tool is then not called, but for actions that were given."""
    assert random_arguments(random.Random(0), schema, []) is None


def test_a_tool_without_parameters_gets_none() -> None:
    """Its call has no arguments."""
    assert random_arguments(random.Random(0), None, []) == {}


def test_the_same_generator_draws_the_same() -> None:
    """A play must be the same when it is repeated."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}

    first, second = [[random_arguments(random.Random(seed), schema, ["x"]) for seed in range(20)] for _ in range(2)]

    assert first == second


def test_known_values_are_drawn_rather_for_a_parameter_of_their_name() -> None:
    """Nothing is found by an item that is on no shelf."""
    schema = {
        "properties": {"item": {"type": "string"}, "n": {"type": "integer", "maximum": 50}},
        "required": ["item", "n"],
    }
    known = [("item", "bolt"), ("question", "how many?"), ("start", 37), ("budget", 99)]

    drawn = [random_arguments(random.Random(seed), schema, [], known) or {} for seed in range(100)]

    assert sum(one["item"] == "bolt" for one in drawn) > 30
    assert sum(one["n"] == 37 for one in drawn) > 30
    assert all(one["n"] <= 50 and one["item"] != "how many?" for one in drawn)
