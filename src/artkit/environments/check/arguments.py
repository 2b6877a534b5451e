"""Random arguments of a tool, valid for its JSON schema."""

from __future__ import annotations

import functools
import json
import random
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artkit.environments.check.known import Field

__all__ = ["is_schema", "random_arguments"]

_TRIES = 30
_MAX_DEPTH = 6


def random_arguments(
    rng: random.Random, schema: Any, words: Sequence[str], known: Sequence[Field] = ()
) -> dict[str, Any] | None:
    """Return arguments that `schema` allows; None where none were found, or it is no schema.

    Args:
        rng: What draws.
        schema: The JSON schema of the parameters; None is a tool without parameters.
        words: Texts that are likely to mean something to the environment.
        known: Values that are likelier still, most of all where a parameter has their name.
    """
    if schema is None:
        return {}
    if not isinstance(schema, Mapping):
        return None
    validator = _validator(json.dumps(schema, default=repr))
    if validator is None:
        return None
    drawing = _Drawing(rng, schema, words, known)
    for _ in range(_TRIES):
        value = drawing.value({"type": "object", **schema}, 0)
        try:
            if isinstance(value, dict) and validator.is_valid(value):
                return value
        except Exception:  # noqa: BLE001  # a "$ref" that leads nowhere, a pattern that is no regular expression
            return None
    return None


def is_schema(schema: Mapping[str, Any]) -> bool:
    """Whether `schema` is a JSON schema."""
    return _validator(json.dumps(schema, default=repr)) is not None


@functools.lru_cache(maxsize=256)
def _validator(schema_json: str) -> Any:
    """Return what checks a value, or None where it is no schema; kept, for a schema is slow to check."""
    # Late: they are slow to import, and not every environment has tools.
    from jsonschema import SchemaError, validators  # type: ignore[import-untyped]  # it ships no types
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # nor does it

    schema = json.loads(schema_json)
    kind = validators.validator_for(schema, default=validators.validator_for({}))
    try:
        kind.check_schema(schema)
    except SchemaError:
        return None
    # A registry of one's own: without it, jsonschema fetches what a "$ref" names from the network.
    return kind(schema, registry=REGISTRY)


class _Drawing:
    """Draws values that look like what a schema asks for; whether they are valid is for the validator to say."""

    def __init__(
        self, rng: random.Random, root: Mapping[str, Any], words: Sequence[str], known: Sequence[Field]
    ) -> None:
        self._rng = rng
        self._root = root
        self._words = words
        self._known = known

    def value(self, schema: Any, depth: int, name: str = "") -> Any:
        if not isinstance(schema, Mapping):
            return self._text({}, name)
        schema = self._merged(schema, depth)
        for given in ("const", "default"):
            if given in schema and (given == "const" or self._rng.random() < 0.3):
                return schema[given]
        for given in ("enum", "examples"):
            choices = schema.get(given)
            if isinstance(choices, Sequence) and choices and (given == "enum" or self._rng.random() < 0.5):
                return self._rng.choice(choices)
        return self._typed(schema, depth, name)

    def _merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Follow references, and choose one of several schemas."""
        for _ in range(_MAX_DEPTH):
            if "$ref" in schema:
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = {**self._resolved(schema["$ref"]), **rest}
                continue
            several = next((key for key in ("anyOf", "oneOf") if schema.get(key)), None)
            if several:
                chosen = self._rng.choice(schema[several])
            elif schema.get("allOf"):
                several, chosen = "allOf", {}
                for part in schema["allOf"]:
                    chosen = _joined(chosen, self._merged(part, depth))
            else:
                break
            schema = _joined({key: value for key, value in schema.items() if key != several}, chosen)
        return schema

    def _resolved(self, reference: Any) -> Mapping[str, Any]:
        target: Any = self._root
        for part in str(reference).removeprefix("#").strip("/").split("/"):
            if isinstance(target, Mapping):
                target = target.get(part.replace("~1", "/").replace("~0", "~"), {})
        return target if isinstance(target, Mapping) else {}

    def _typed(self, schema: Mapping[str, Any], depth: int, name: str) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, Sequence) and not isinstance(kind, str):
            kind = self._rng.choice(kind)
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth, name)
            case "integer" | "number":
                return self._number(schema, name, is_whole=kind == "integer")
            case "boolean":
                return self._rng.random() < 0.5
            case "null":
                return None
        return self._text(schema, name)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = list(schema.get("required") or ())
        optional = [name for name in properties if name not in required]
        names = required + [name for name in optional if depth < _MAX_DEPTH and self._rng.random() < 0.5]
        return {name: self.value(properties.get(name, {}), depth + 1, name) for name in names}

    def _array(self, schema: Mapping[str, Any], depth: int, name: str) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = min(int(schema.get("maxItems", least + 3)), least + 3)
        parts = list(schema.get("prefixItems") or ())
        size = max(len(parts), self._rng.randint(least, max(least, most)))
        return [
            self.value(parts[place] if place < len(parts) else schema.get("items", {}), depth + 1, name)
            for place in range(size if depth < _MAX_DEPTH else least)
        ]

    def _one_known(self, fitting: Sequence[Field], name: str) -> Any:
        """Return one of the known values, now and then, rather one of this name; None where there is none."""
        if not fitting or self._rng.random() < 0.5:
            return None
        return self._rng.choice(
            [value for known_name, value in fitting if known_name == name] or [value for _, value in fitting]
        )

    def _number(self, schema: Mapping[str, Any], name: str, *, is_whole: bool) -> float | int:
        kinds = int if is_whole else int | float
        fitting = [field for field in self._known if isinstance(field[1], kinds) and _is_within(schema, field[1])]
        if (known := self._one_known(fitting, name)) is not None:
            return known  # type: ignore[no-any-return]  # a number, as just chosen
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        step = schema.get("multipleOf") or 1
        if isinstance(above, int | float) and not isinstance(above, bool):
            low = above + (step if is_whole else 1e-3) if low is None else max(low, above)
        if isinstance(below, int | float) and not isinstance(below, bool):
            high = below - (step if is_whole else 1e-3) if high is None else min(high, below)
        if low is None:
            low = 0 if high is None else high - 10
        high = low + 10 if high is None else high
        if is_whole or "multipleOf" in schema:
            first, last = -(-low // step), max(-(-low // step), high // step)
            drawn = self._rng.randint(int(first), int(last)) * step
            return int(drawn) if is_whole else drawn
        return round(self._rng.uniform(low, high), 3)

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        least = int(schema.get("minLength", 0))
        most = int(schema.get("maxLength", max(least, 40)))
        if (made := _FORMATS.get(schema.get("format", ""))) is not None:
            return made
        fitting = [field for field in self._known if isinstance(field[1], str)]
        if (known := self._one_known(fitting, name)) is not None:
            text: str = known
        elif self._words and self._rng.random() < 0.7:
            text = self._rng.choice(self._words)
        else:
            text = "".join(self._rng.choices(string.ascii_lowercase, k=self._rng.randint(1, 8)))
        return (text + "x" * (least - len(text)))[:most]


def _is_within(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a number is within the bounds; whether it is valid, the validator says."""
    return bool(
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)
        and not value % (schema.get("multipleOf") or value or 1)
    )


def _joined(left: Mapping[str, Any], right: Any) -> dict[str, Any]:
    right = right if isinstance(right, Mapping) else {}
    joined = {**left, **right}
    for key in ("properties", "required"):
        if key in left and key in right:
            both = {**left[key], **right[key]} if key == "properties" else [*left[key], *right[key]]
            joined[key] = both if key == "properties" else list(dict.fromkeys(both))
    return joined


_FORMATS = {
    "date": "2025-03-14",
    "date-time": "2025-03-14T15:09:26Z",
    "time": "15:09:26Z",
    "email": "ada@example.com",
    "uri": "https://example.com/a",
    "uuid": "6f1e0c5a-3b0d-4f0e-9a52-1c2d3e4f5a6b",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}
