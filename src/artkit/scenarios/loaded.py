"""Loaded scenarios, and the count of what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from artkit.errors import ConfigurationError
from artkit.scenarios.content import content_digest
from artkit.scenarios.row_reader import RowReader, ScenarioT

__all__ = ["BadRows", "LoadedScenarios", "OnBadLine", "OnDuplicate", "collect", "read"]

OnBadLine: TypeAlias = Literal["raise", "skip"]
OnDuplicate: TypeAlias = Literal["raise", "merge"]

_KEPT_PROBLEMS = 20


class LoadedScenarios(list[ScenarioT]):
    """A list of scenarios that also knows what was left out.

    Attributes:
        skipped: Lines or rows that were no scenario and were skipped: `on_bad_line="skip"`.
        problems: What was wrong with the first 20 of them, each with its place and field.
        merged: Rows that repeated an earlier one, id and content, and were merged with it: `on_duplicate="merge"`.
    """

    skipped: int = 0
    problems: tuple[str, ...] = ()
    merged: int = 0


class BadRows:
    """Refuses rows that are no scenario, or counts them."""

    def __init__(self, on_bad_line: OnBadLine) -> None:
        _check_choice("on_bad_line", on_bad_line, ("raise", "skip"))
        self.is_skipping = on_bad_line == "skip"
        self.count = 0
        self.problems: list[str] = []

    def refuse(self, error: ConfigurationError) -> None:
        """Raise `error`, or count it."""
        if not self.is_skipping:
            raise error
        self.count += 1
        if len(self.problems) < _KEPT_PROBLEMS:
            self.problems.append(error.problem)


def read(
    rows: Iterable[tuple[str, Any]], reader: RowReader[ScenarioT], bad_rows: BadRows
) -> Iterator[tuple[str, Any, ScenarioT]]:
    """Yield for each row that is a scenario where it stands, the row and the scenario; nothing is kept."""
    for where, raw in rows:
        try:
            scenario = reader.scenario(where, raw)
        except ConfigurationError as error:
            bad_rows.refuse(error)
        else:
            yield where, raw, scenario


def collect(
    rows: Iterable[tuple[str, Any]], reader: RowReader[ScenarioT], *, on_bad_line: OnBadLine, on_duplicate: OnDuplicate
) -> LoadedScenarios[ScenarioT]:
    """Return the scenarios of all rows, each id once.

    Raises:
        ConfigurationError: If a row is refused, an id comes twice and was not to be merged or has another content, or
            every row was skipped.
    """
    _check_choice("on_duplicate", on_duplicate, ("raise", "merge"))
    bad_rows = BadRows(on_bad_line)
    loaded: LoadedScenarios[ScenarioT] = LoadedScenarios()
    seen: dict[str, tuple[str, int]] = {}
    for where, raw, scenario in read(rows, reader, bad_rows):
        first, place = seen.setdefault(scenario.id, (where, len(loaded)))
        if place == len(loaded):
            loaded.append(scenario)
            continue
        problem = f"{where}: field {reader.keys.id!r}: {scenario.id!r} is the id of {first} too"
        if on_duplicate == "raise":
            if reader.is_named_by_content(where, raw, scenario):
                problem = f"{where}: the same as {first}, and neither has an id that tells the two apart"
            hint = 'leave the duplicate out: on_duplicate="merge"; or give each task an id of its own: id_key='
            raise ConfigurationError(problem, hint)
        if content_digest(scenario) != content_digest(loaded[place]):
            raise ConfigurationError(
                f"{problem}, and the two differ", "two tasks can't be merged: give each an id of its own"
            )
        loaded.merged += 1
    loaded.skipped, loaded.problems = bad_rows.count, tuple(bad_rows.problems)
    if loaded.skipped and not loaded:
        msg = f"none of the {loaded.skipped} rows is a scenario; the first: {loaded.problems[0]}"
        raise ConfigurationError(msg, "are the names of the fields right? See prompt_key= and the others")
    return loaded


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name}={value!r} is no choice", f"{name} is {' or '.join(map(repr, choices))}")
