"""The arguments of a tool: their JSON schema, and how those of one call are checked and converted."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from artkit.bridge.safe_values import safe_json
from artkit.errors import EnvironmentContractError, ToolError

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaWarningKind
    from pydantic_core import ErrorDetails

__all__ = ["Arguments", "first_of"]

_MOST = 5
_HINT = "a model sends named JSON values: annotate each with str, int, Literal, list[str], a pydantic model, …"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments that a method takes.

    Attributes:
        names: Their names, in order.
        schema: Their JSON schema, an object's; its `$defs` hold nested types.
    """

    names: tuple[str, ...]
    schema: dict[str, Any]
    _model: type[BaseModel]
    _optional: frozenset[str]
    """Those whose default is the method's own affair."""

    @classmethod
    def of(
        cls,
        method: Callable[..., Any],
        *,
        descriptions: Mapping[str, str],
        local_names: Mapping[str, Any],
        is_given: bool,
    ) -> Arguments:
        """Read the signature of a method.

        Args:
            method: The function in the class, whose first parameter is the instance.
            descriptions: What is said of each argument elsewhere; a description in its annotation goes before.
            local_names: What annotations may name beside the method's globals.
            is_given: Whether the schema comes from elsewhere. Then annotations may be missing, and `**arguments` take
                what they do not name.

        Raises:
            EnvironmentContractError: A parameter that a model cannot fill, or whose type has no JSON schema.
        """
        parameters = list(inspect.signature(method).parameters.values())
        if not parameters:
            raise EnvironmentContractError(f"{_name(method)} takes no self", "mark plain methods")
        del parameters[0]
        is_open = is_given and any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters if not (is_open and p.kind is p.VAR_KEYWORD)]
        fields = {
            # The model's own names are aliases, for an argument may well be called `schema` or `copy`.
            f"argument_{number}": (
                Annotated[_annotation(method, parameter, local_names, is_given=is_given), Field(alias=parameter.name)],
                ... if parameter.default is parameter.empty else parameter.default,
            )
            for number, parameter in enumerate(named)
        }
        config = ConfigDict(extra="allow" if is_open else "forbid", protected_namespaces=())
        try:
            model = create_model("Arguments", __config__=config, **fields)  # type: ignore[call-overload]
            # What the fields of a dataclass or a typed dict are annotated with may be local too.
            model.model_rebuild(_types_namespace=dict(local_names))
            schema = model.model_json_schema(schema_generator=_PlainSchema)
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise EnvironmentContractError(
                f"the arguments of {_name(method)} have no JSON schema: {reason}", _HINT
            ) from error
        del schema["title"]
        schema.setdefault("properties", {})
        for name, text in descriptions.items():
            if name in schema["properties"]:
                schema["properties"][name].setdefault("description", text)
        optional = (p.name for p in named if p.default is not p.empty and not isinstance(p.default, FieldInfo))
        return cls(tuple(p.name for p in named), schema, model, frozenset(optional))

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of one call as the method takes them.

        Raises:
            ToolError: They do not fit; in words for the model, which name the argument.
        """
        # As JSON, for that is what they are: a date is a text there, and a tuple an array.
        try:
            model = self._model.model_validate_json(json.dumps(safe_json(arguments), ensure_ascii=False))
        except RecursionError as error:
            raise ToolError("arguments are nested too deeply") from error
        except ValidationError as error:
            raise ToolError(self._in_words(error.errors(include_url=False))) from error
        given = {self.names[number]: f"argument_{number}" for number in range(len(self.names))}
        values = {
            name: getattr(model, field)
            for name, field in given.items()
            if field in model.model_fields_set or name not in self._optional
        }
        return values | (model.model_extra or {})

    def _in_words(self, errors: list[ErrorDetails]) -> str:
        return first_of([self._one_in_words(error) for error in errors])

    def _one_in_words(self, error: ErrorDetails) -> str:
        name = ".".join(map(str, error["loc"]))
        match error["type"]:
            case "missing":
                return f"argument {name!r} is missing"
            case "extra_forbidden":
                known = ", ".join(map(repr, self.schema["properties"])) or "none"
                return f"there is no argument {name!r}, the arguments are: {known}"
            case _:
                where = f"argument {name!r}" if name else "arguments"
                message = error["msg"][:1].lower() + error["msg"][1:]
                return f"{where}: {message}, got {_shortened(error['input'])}"


class _PlainSchema(GenerateJsonSchema):
    """JSON schemas without the titles that pydantic makes of names: the model would read each name twice."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: a default that JSON cannot hold is left out, and the method fills it in."""

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:  # infinity, which no server reads
            raise PydanticSerializationError(str(error)) from error
        return encoded

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _annotation(
    method: Callable[..., Any], parameter: inspect.Parameter, local_names: Mapping[str, Any], *, is_given: bool
) -> Any:
    where = f"argument {parameter.name!r} of {_name(method)}"
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        problem = f"{_name(method)} takes {parameter}"
        raise EnvironmentContractError(problem, "name its arguments, or give the tool a schema and take **arguments")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise EnvironmentContractError(f"{where} can only be given by position", "take the / out of its signature")
    if parameter.annotation is parameter.empty:
        if is_given:
            return Any
        raise EnvironmentContractError(f"{where} has no annotation", _HINT)
    namesake = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    names = getattr(inspect.unwrap(method), "__globals__", {})
    try:
        found = typing.get_type_hints(namesake, names, dict(local_names), include_extras=True)[parameter.name]
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise EnvironmentContractError(
            f"{where} is annotated with {parameter.annotation!r}, which cannot be read: {error}",
            "define the type before the class; an import under `if TYPE_CHECKING` is not there when the program runs",
        ) from error
    metadata = getattr(found, "__metadata__", ())
    if texts := [extra for extra in metadata if isinstance(extra, str)]:  # `Annotated[str, "what it is"]`
        found = Annotated[(found.__origin__, Field(description=texts[0]), *metadata)]
    # `text: str = None` is widely written, and the schema shows the None.
    return Optional[found] if parameter.default is None else found  # noqa: UP045  # `|` takes no forward reference


def first_of(problems: Sequence[str]) -> str:
    """Return the first problems as one text: a list of thousands has as many, and the model's context an end."""
    rest = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
    return "; ".join([*problems[:_MOST], *rest])


def _shortened(value: Any) -> str:
    text = json.dumps(value, default=repr, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _name(method: Callable[..., Any]) -> str:
    return f"{getattr(method, '__qualname__', method)}()"
