"""The validator of a JSON schema, which fetches nothing and keeps a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import regex  # type: ignore[import-untyped]  # it ships no types

from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    from referencing import Resource

__all__ = ["json_validator"]

# A sane pattern needs a thousandth of it.
_TIMEOUT_S = 1.0


def json_validator(schema: Mapping[str, Any]) -> Any:
    """Return a validator of `jsonschema` for `schema`, whose patterns raise `TimeoutError` at their deadline.

    Raises:
        ConfigurationError: It is no JSON schema, or refers to what it does not hold.
    """
    # Late: they are slow to import, and few rewards need them.
    from jsonschema import SchemaError, validators  # type: ignore[import-untyped]  # it ships no types
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # nor does it
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"schema={schema!r} is no mapping", "give the schema as a dict")
    kind = validators.validator_for(schema, default=validators.validator_for({}))
    try:
        kind.check_schema(schema)
        root = specification_with(kind.META_SCHEMA["$schema"]).create_resource(dict(schema))
        parts = list(_parts(root, REGISTRY.resolver_with_root(root)))
        _check_patterns(parts)
    except SchemaError as error:
        msg = f"schema is no JSON schema: {error.json_path}: {error.message}"
        raise ConfigurationError(msg, "mend it") from error
    except Unresolvable as error:
        msg = f"schema refers to {error.ref!r}, which it does not hold"
        raise ConfigurationError(msg, 'put it under "$defs": nothing is fetched') from error
    # jsonschema's own use `re`, which lets no other thread run while it matches.
    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional}
    # Without "$schema", for a part that has it, such as the whole that a part refers to, gets jsonschema's own class.
    bare = {name: value for name, value in schema.items() if name != "$schema"}
    # A registry of one's own: without it, jsonschema fetches what a "$ref" names from the network.
    return validators.extend(kind, own)(bare, registry=REGISTRY)


def _parts(resource: Resource[Any], resolver: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each part of a schema that is one itself; its references are looked up, as validating does.

    Raises:
        referencing.exceptions.Unresolvable: One leads nowhere.
    """
    resolver = resolver.in_subresource(resource)
    if isinstance(resource.contents, Mapping):
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(resource.contents.get(name), str):
                resolver.lookup(resource.contents[name])
        yield resource.contents
    for part in resource.subresources():
        yield from _parts(part, resolver)


def _check_patterns(parts: list[Mapping[str, Any]]) -> None:
    for part in parts:
        for pattern in (part.get("pattern"), *part.get("patternProperties", ())):
            try:
                regex.compile(pattern or "")
            except regex.error as error:
                msg = f"schema: {pattern!r} is no regular expression: {error}"
                raise ConfigurationError(msg, "mend it") from error
    if any("patternProperties" in part for part in parts) and any("unevaluatedProperties" in part for part in parts):
        raise ConfigurationError(
            'schema has both "patternProperties" and "unevaluatedProperties", whose matching has no deadline',
            'use "additionalProperties"',
        )


def _finds(pattern: str, text: str) -> bool:
    return regex.search(pattern, text, timeout=_TIMEOUT_S) is not None


def _pattern(validator: Any, pattern: str, instance: Any, _: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _finds(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _: Mapping[str, Any]
) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, part in patterns.items():
            for name, value in instance.items():
                if _finds(pattern, name):
                    yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional(validator: Any, part: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "object"):
        patterns, known = schema.get("patternProperties", {}), schema.get("properties", {})
        extra = [name for name in instance if name not in known and not any(_finds(each, name) for each in patterns)]
        if part is False and extra:
            yield ValidationError(f"Additional properties are not allowed: {', '.join(map(repr, extra))}")
        elif validator.is_type(part, "object"):
            for name in extra:
                yield from validator.descend(instance[name], part, path=name)
