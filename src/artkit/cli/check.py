"""`artkit check MODULE:CLASS`: does an environment keep its promises?"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from artkit.environments import check_environment, scenario_type_of
from artkit.errors import ConfigurationError
from artkit.scenarios import PromptScenario, load_jsonl
from artkit.secrets import scrub

if TYPE_CHECKING:
    from artkit.environments import Environment
    from artkit.scenarios import Scenario

__all__ = ["run_check"]


def run_check(
    target: str,
    *,
    scenarios: Path | None = None,
    seed: int = 0,
    quick: bool = False,
    max_scenarios: int | None = None,
    time_limit_s: float | None = None,
) -> int:
    """Check an environment and print the report.

    Args:
        target: Where the class or factory is, as `package.module:Class`; the current directory is searched too.
        scenarios: A JSONL file of scenarios, of the class that the environment names as in `Environment[MyScenario]`.
        seed: Seeds the random replies.
        quick: As for `check_environment`.
        max_scenarios: As for `check_environment`.
        time_limit_s: As for `check_environment`.

    Returns:
        0 where all promises are kept, 1 where one is broken.

    Raises:
        ConfigurationError: There is no such class, it cannot be called without arguments, scenarios are missing, or a
            limit is not positive.
    """
    environment = _found(target)
    try:
        kind = scenario_type_of(environment)
    except TypeError as error:
        raise ConfigurationError(
            f"{target} cannot make an environment: {error}", "name a class or a function without arguments"
        ) from error
    played: Sequence[Scenario] = load_jsonl(scenarios, kind) if scenarios else _made_up(kind)
    checking = check_environment(
        environment, played, seed=seed, quick=quick, max_scenarios=max_scenarios, time_limit_s=time_limit_s
    )
    report = asyncio.run(checking)
    sys.stdout.write(scrub(f"{report}\n"))
    return 0 if report.ok else 1


def _found(target: str) -> Callable[[], Environment[Any]]:
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise ConfigurationError(f"{target!r} is not MODULE:CLASS", "write it as in my_package.desk:Desk")
    # A script that is installed does not search the current directory; `python -m` does.
    if os.getcwd() not in sys.path:  # noqa: PTH109  # what is compared is a text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  # as above
    if "/" in module_name or module_name.endswith(".py"):
        raise ConfigurationError(f"{module_name} is a file", "name the module, as in my_package.desk:Desk")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # a module can raise anything, and then nothing was checked
        raise ConfigurationError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error}",
            "run it where `python -c 'import …'` works",
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{module_name} has no {name}", "name a class or a function of the module")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigurationError(f"{target} is {found!r}", "name a class or a function without arguments")
    return found  # type: ignore[no-any-return]  # what it makes is checked when it is called


def _made_up(kind: type[Scenario]) -> list[Scenario]:
    """Return scenarios of a class that needs none but an id, or a prompt."""
    if kind is PromptScenario:
        prompts = ("What is 2 + 3?", "What is 7 + 8?")
        return [kind.model_validate({"id": f"sum-{n}", "messages": prompt}) for n, prompt in enumerate(prompts)]
    try:
        return [kind.model_validate({"id": name}) for name in ("a", "b")]
    except ValidationError as error:
        needed = ", ".join(name for name, field in kind.model_fields.items() if field.is_required())
        raise ConfigurationError(
            f"a {kind.__name__} needs {needed}, which cannot be made up", "give some with --scenarios FILE"
        ) from error
