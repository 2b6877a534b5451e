"""Scenarios from rows: JSON lines and Hugging Face datasets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import ValidationError

from artkit.errors import ConfigurationError
from artkit.scenarios.content import content_digest
from artkit.scenarios.prompt_scenario import PromptScenario
from artkit.scenarios.scenario import Scenario

__all__ = ["from_dataset", "load_jsonl"]

ScenarioT = TypeVar("ScenarioT", bound=Scenario)

_DEFAULT_KEYS = {"id": "id", "prompt": "prompt", "label": "label", "tools": "tools"}


@overload
def load_jsonl(
    path: str | Path,
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[PromptScenario]: ...
@overload
def load_jsonl(
    path: str | Path,
    scenario_type: type[ScenarioT],
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[ScenarioT]: ...
def load_jsonl(
    path: str | Path,
    scenario_type: type[Scenario] = PromptScenario,
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[Any]:
    """Read one scenario per line of a JSON-lines file in UTF-8. Blank lines are skipped, nothing else is.

    For `PromptScenario` (and its subclasses) the prompt is a str, which becomes one user message, or a list of
    messages, and what no field takes is kept in `metadata`. Any other type is given the row as it is, once the named
    keys are renamed to `id`, `prompt`, `label` and `tools`; it refuses what it does not know.

    Args:
        path: The file.
        scenario_type: What each line becomes.
        id_key: The key of the id, a str or whole number. A row without one is named by a hash of its content.
        prompt_key: The key of the prompt.
        label_key: The key of the label. Only under its default name it may be absent.
        tools_key: The key of the tools. Only under its default name it may be absent.

    Returns:
        The scenarios in the order of the lines.

    Raises:
        ConfigurationError: If the file can't be read, or a line is no JSON object, lacks a named key, does not fit the
            type, or has the id of an earlier one. The message names file, line and field.
    """
    keys = {"id": id_key, "prompt": prompt_key, "label": label_key, "tools": tools_key}
    return _Loader(scenario_type, keys).load(_read_lines(Path(path)))


@overload
def from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[PromptScenario]: ...
@overload
def from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    scenario_type: type[ScenarioT],
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[ScenarioT]: ...
def from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    scenario_type: type[Scenario] = PromptScenario,
    *,
    id_key: str = "id",
    prompt_key: str = "prompt",
    label_key: str = "label",
    tools_key: str = "tools",
) -> list[Any]:
    """Make one scenario of each row of a Hugging Face `Dataset`, or of any iterable of mappings.

    The arguments are those of `load_jsonl`.

    >>> from_dataset([{"question": "2 + 3?", "answer": "5"}], prompt_key="question", label_key="answer")[0].label
    '5'

    Raises:
        ConfigurationError: If `dataset` holds several splits, or a row is refused as by `load_jsonl`; the message
            names row and field.
    """
    if isinstance(dataset, Mapping):
        msg = f"the dataset holds several splits: {', '.join(map(repr, dataset))}"
        raise ConfigurationError(msg, "give one of them, as in from_dataset(dataset['train'])")
    keys = {"id": id_key, "prompt": prompt_key, "label": label_key, "tools": tools_key}
    return _Loader(scenario_type, keys).load((f"row {number}", row) for number, row in enumerate(dataset))


@dataclass(frozen=True, slots=True)
class _Loader:
    """Makes scenarios of rows.

    Attributes:
        scenario_type: What each row becomes.
        keys: For `id`, `prompt`, `label` and `tools`, the key that a row has it under.
    """

    scenario_type: type[Scenario]
    keys: Mapping[str, str]

    def load(self, rows: Iterable[tuple[str, Any]]) -> list[Scenario]:
        """Make a scenario of each row; a row comes with the words that say where it stands."""
        seen: dict[str, str] = {}
        scenarios = []
        for where, row in rows:
            if not isinstance(row, Mapping):
                msg = f"{where}: a {type(row).__name__} is no object with fields"
                raise ConfigurationError(msg, "each row is one JSON object")
            scenario = self._scenario(where, row)
            first = seen.setdefault(scenario.id, where)
            if first is not where:
                msg = f"{where}: field {self.keys['id']!r}: {scenario.id!r} is the id of {first} too"
                raise ConfigurationError(msg, "give each task an id of its own, or leave the duplicate out")
            scenarios.append(scenario)
        return scenarios

    def _scenario(self, where: str, row: Mapping[str, Any]) -> Scenario:
        try:
            return self.scenario_type.model_validate(self._fields(where, row))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or self.scenario_type.__name__
            msg = f"{where}: field {field!r}: {first['msg']}"
            hint = f"{self.scenario_type.__name__} has the fields {', '.join(self.scenario_type.model_fields)}"
            raise ConfigurationError(msg, hint) from error

    def _fields(self, where: str, row: Mapping[str, Any]) -> dict[str, Any]:
        fields = dict(row)
        named: dict[str, Any] = {}
        for name, key in self.keys.items():
            if key in fields:
                named[name] = fields.pop(key)
            elif key != _DEFAULT_KEYS[name]:
                msg = f"{where}: field {key!r} is missing"
                raise ConfigurationError(msg, f"the row has {', '.join(map(repr, row)) or 'no field'}")
        named["id"] = self._id(where, named.get("id"), row)
        if issubclass(self.scenario_type, PromptScenario):
            return self._prompt_fields(where, named, fields)
        return fields | named

    def _id(self, where: str, value: object, row: Mapping[str, Any]) -> str:
        if value is None:
            return content_digest(row)[:16]
        if isinstance(value, bool) or not isinstance(value, str | int):
            msg = f"{where}: field {self.keys['id']!r}: {value!r} is no str or whole number"
            raise ConfigurationError(msg, "an id names the task; leave it out to have one made from the content")
        return str(value)

    def _prompt_fields(self, where: str, named: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a `PromptScenario`: the prompt as messages, and in metadata what no field takes."""
        if "prompt" in named:
            rest["messages"] = named.pop("prompt")
        elif "messages" not in rest:
            msg = f"{where}: field {self.keys['prompt']!r} is missing"
            raise ConfigurationError(msg, f"say which field is the prompt: prompt_key=; the row has {sorted(rest)}")
        known = {name: rest.pop(name) for name in self.scenario_type.model_fields if name in rest}
        metadata = known.pop("metadata", None) or {}
        if isinstance(metadata, Mapping):
            metadata = {**rest, **metadata}
        return {**known, **named, "metadata": metadata}


def _read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}", "check the path") from error
    with file:
        for number, line in enumerate(file, start=1):
            where = f"{path}, line {number}"
            try:
                # A byte order mark is white space to some editors and an error to JSON.
                text = line.decode("utf-8-sig").strip()
                if text:
                    yield where, json.loads(text)
            except ValueError as error:
                msg = f"{where}: no JSON: {error}"
                raise ConfigurationError(msg, "each line is one JSON object, in UTF-8") from error
