"""What is refused before a batch is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from artkit.errors import ConfigurationError

__all__ = ["check_id", "check_positive", "check_scenarios", "check_slice"]

_SHOWN = 3


def check_positive(name: str, value: object) -> None:
    """Refuse a `value` that is no whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name}={value!r} is no positive whole number", f"{name}=1 is the least that works")


def check_id(scenario: object, where: str) -> None:
    """Refuse a `scenario` whose id is no text that names it; `where` says which one it is."""
    name = getattr(scenario, "id", None)
    if name is None:
        msg = f"{where} is a {type(scenario).__name__} without an id"
        hint = (
            "give objects with an id, such as Scenario; load_jsonl, from_dataset and stream_dataset make them from rows"
        )
        raise ConfigurationError(msg, hint)
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where} has the id {name!r}, which is no text", f"give it a name, such as {where!r}")


def check_scenarios(scenarios: Sequence[object]) -> None:
    """Refuse an empty sequence, a scenario without a proper id, and an id that comes twice."""
    if not scenarios:
        raise ConfigurationError("scenarios=() is empty", "give at least one scenario")
    for number, scenario in enumerate(scenarios):
        check_id(scenario, f"scenarios[{number}]")
    times = Counter(getattr(scenario, "id") for scenario in scenarios)  # noqa: B009
    repeated = [name for name, number in times.items() if number > 1]
    if repeated:
        shown = ", ".join(map(repr, repeated[:_SHOWN])) + (", …" if len(repeated) > _SHOWN else "")
        msg = f"{len(repeated)} of the scenarios' ids come more than once: {shown}"
        raise ConfigurationError(msg, "give each task an id of its own, or leave the duplicates out")


def check_slice(start: object, limit: object) -> None:
    """Refuse a `start` that is no whole number of 0 or more, and a `limit` that is neither None nor positive."""
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise ConfigurationError(f"start={start!r} is no whole number of 0 or more", "start=0 leaves nothing out")
    if limit is not None:
        check_positive("limit", limit)
