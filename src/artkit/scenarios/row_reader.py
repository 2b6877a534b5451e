"""Making a scenario of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Generic

from pydantic import ValidationError
from typing_extensions import TypeVar  # that of typing takes a default from Python 3.13 on

from artkit.errors import ConfigurationError
from artkit.scenarios.chat import as_messages, from_text, without_nulls
from artkit.scenarios.content import content_digest
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.scenario import Scenario

__all__ = ["Keys", "RowReader", "ScenarioT"]

# The default is what a type checker goes by where no scenario_type is given.
ScenarioT = TypeVar("ScenarioT", bound=Scenario, default=PromptScenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The key that a row has each part under, or a path such as "a.b"; what has its default name may be absent."""

    id: str = "id"
    prompt: str = "prompt"
    label: str = "label"
    tools: str = "tools"
    metadata: str = "metadata"


_PARTS = ("id", "prompt", "label", "tools", "metadata")


@dataclass(frozen=True, kw_only=True)
class RowReader(Generic[ScenarioT]):
    """Makes scenarios of rows.

    Attributes:
        scenario_type: What each row becomes.
        keys: The names that the user gave.
        parse: Makes a row of what the source yields, given where it stands; None where that is the row.
        is_columnar: Whether a null may mean that there is no value: Arrow can't tell the two apart.
    """

    scenario_type: type[ScenarioT]
    keys: Keys
    parse: Callable[[str, Any], Any] | None = None
    is_columnar: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.scenario_type, type) and issubclass(self.scenario_type, Scenario)):
            msg = f"scenario_type={self.scenario_type!r} is no class of scenarios"
            raise ConfigurationError(msg, "write it as a subclass of Scenario, or leave it out for PromptScenario")

    def scenario(self, where: str, raw: Any) -> ScenarioT:
        """Return the scenario of the row at `where`.

        Raises:
            ConfigurationError: If there is none; the message names place and field.
        """
        row = self._row(where, raw)
        if not isinstance(row, Mapping):
            msg = f"{where}: a {type(row).__name__} is no object with fields"
            raise ConfigurationError(msg, "each row is one object; a pandas DataFrame gives them by to_dict('records')")
        fields = self._fields(where, row)
        try:
            return self.scenario_type.model_validate(fields)
        except ValidationError as error:
            raise self._refused(where, row, error) from error
        except Exception as error:
            error.add_note(f"{where}: a validator of {self.scenario_type.__name__} raised this")
            raise

    def is_named_by_content(self, where: str, raw: Any, scenario: ScenarioT) -> bool:
        """Whether the scenario that was made of the row has an id that the row does not hold."""
        return self._id(where, None, self._row(where, raw)) == scenario.id

    def _row(self, where: str, raw: Any) -> Any:
        return raw if self.parse is None else self.parse(where, raw)

    def _fields(self, where: str, row: Mapping[str, Any]) -> dict[str, Any]:
        rest = dict(row)
        named: dict[str, Any] = {}
        for part, key in self._named:
            if key in row:
                named[part] = row[key]
                rest.pop(key, None)  # two parts may be of one field
            elif key != part:
                named[part] = _inside(where, row, key)
                rest = _without(rest, key.split("."))
        named["id"] = self._id(where, named.get("id"), row)
        if self._is_prompt:
            return self._prompt_fields(where, named, rest)
        return self._own_fields(where, named, rest)

    def _id(self, where: str, value: object, row: Mapping[str, Any]) -> str:
        if value is None:
            # A key without a value says as much as no key: some sources can't tell the two apart.
            try:
                return content_digest({key: item for key, item in row.items() if item is not None})[:16]
            except ConfigurationError as error:
                raise ConfigurationError(f"{where}: {error.problem}", error.hint) from error
        if isinstance(value, bool) or not isinstance(value, str | Integral):
            msg = f"{where}: field {self.keys.id!r}: {value!r} is no str or whole number"
            raise ConfigurationError(msg, "an id names the task; leave it out to have one made from the content")
        return str(value)

    def _prompt_fields(self, where: str, named: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a `PromptScenario`: the prompt as messages, and in metadata what no field takes."""
        if "prompt" not in named:
            if "messages" not in rest:
                msg = f"{where}: field {self.keys.prompt!r} is missing"
                raise ConfigurationError(msg, f"say which field is the prompt: prompt_key=; the row has {sorted(rest)}")
            named["prompt"] = rest.pop("messages")
        named["messages"] = as_messages(named.pop("prompt"), is_columnar=self.is_columnar)
        tools = from_text(named.pop("tools", None))
        named["tools"] = without_nulls(tools) if self.is_columnar else tools
        for name in self._own_names:
            if name in rest:
                named[name] = rest.pop(name)
        metadata = from_text(named.pop("metadata", None))
        metadata = {} if metadata is None else metadata
        if isinstance(metadata, Mapping):
            if twice := sorted(rest.keys() & metadata.keys()):
                msg = f"{where}: field {twice[0]!r} is in {self.keys.metadata!r} too"
                raise ConfigurationError(msg, "fields that no field of the scenario takes are kept in its metadata")
            metadata = {**rest, **metadata}
        return self._without_absent({**named, "metadata": metadata})

    def _own_fields(self, where: str, named: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a type of the user's own: the row, with the named keys renamed."""
        if twice := sorted(rest.keys() & named.keys()):
            msg = f"{where}: field {twice[0]!r} is there twice, once as {getattr(self.keys, twice[0])!r}"
            raise ConfigurationError(msg, "leave one of the two out")
        return self._without_absent({**rest, **named})

    def _without_absent(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not self.is_columnar:
            return fields
        return {name: value for name, value in fields.items() if value is not None or name not in self._optional}

    @cached_property
    def _named(self) -> tuple[tuple[str, str], ...]:
        return tuple((part, getattr(self.keys, part)) for part in _PARTS)

    @cached_property
    def _is_prompt(self) -> bool:
        return issubclass(self.scenario_type, PromptScenario)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """The fields that a subclass of `PromptScenario` adds."""
        return frozenset(self.scenario_type.model_fields) - frozenset(PromptScenario.model_fields)

    @cached_property
    def _optional(self) -> frozenset[str]:
        return frozenset(name for name, field in self.scenario_type.model_fields.items() if not field.is_required())

    def _renamed_away(self, errors: Sequence[Any]) -> tuple[str, str] | None:
        """Return a key that was named, and what it was renamed to, where that is what a type of one's own refuses."""
        if self._is_prompt:
            return None
        wrong = {(error["type"], error["loc"][:1]) for error in errors}
        for part, key in self._named:
            if part in self.scenario_type.model_fields or key == part:
                continue
            if {("extra_forbidden", (part,)), ("missing", (key,))} & wrong:
                return key, part
        return None

    def _refused(self, where: str, row: Mapping[str, Any], error: ValidationError) -> ConfigurationError:
        errors = error.errors(include_url=False)
        if (renamed := self._renamed_away(errors)) is not None:
            key, part = renamed
            msg = f"{where}: field {key!r} is renamed to {part!r}, which {self.scenario_type.__name__} has no field for"
            return ConfigurationError(msg, f"leave {part}_key={key!r} out: all other fields keep their names")
        first = errors[0]
        place = list(first["loc"])
        if place and place[0] not in row:
            # The row has the field under the name that the user gave.
            part = "prompt" if place[0] == "messages" else str(place[0])
            place[0] = getattr(self.keys, part, place[0])
        field = ".".join(map(str, place)) or self.scenario_type.__name__
        hint = f"{self.scenario_type.__name__} has the fields {', '.join(self.scenario_type.model_fields)}"
        return ConfigurationError(f"{where}: field {field!r}: {first['msg']}", hint)


def _inside(where: str, row: Mapping[str, Any], key: str) -> Any:
    """Return what a field of a field holds, under a key such as "reward_model.ground_truth"."""
    value: Any = row
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            msg = f"{where}: field {key!r} is missing"
            raise ConfigurationError(msg, f"the row has {', '.join(map(repr, row)) or 'no field'}")
        value = value[name]
    return value


def _without(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the row without the field inside of fields, and without what holds nothing else."""
    first, *further = names
    inner = row.get(first)
    left = _without(inner, further) if further and isinstance(inner, Mapping) else {}
    return {name: left if name == first else item for name, item in row.items() if name != first or left}
