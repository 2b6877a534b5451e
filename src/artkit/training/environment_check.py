"""Whether the environments of a run replay, found out before anything is spent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from artkit.environments import EnvironmentReport, Promise, check_environment
from artkit.errors import EnvironmentContractError
from artkit.rollouts import TaskRollout, rollouts_of

if TYPE_CHECKING:
    from artkit.environments import Environment
    from artkit.rollouts import AnyRollout
    from artkit.training.parts import Parts

__all__ = ["check_environments"]

# Of each environment; and how many of an open-ended source are read to find them.
_SCENARIOS = 2
_READ_AHEAD = 16

# An episode that breaks off is not trained on, and the world outside may be to blame: that is for `FailurePolicy`.
_TRAINING_RESTS_ON = frozenset(
    {
        Promise.START,
        Promise.REPLAYS,
        Promise.ISOLATED,
        Promise.FRESH_INSTANCE,
        Promise.PROMPT,
        Promise.TYPES,
        Promise.LEAVES_RETURNED,
        Promise.LEAVES_SCENARIO,
    }
)


async def check_environments(parts: Parts) -> list[str]:
    """Play short episodes in each environment of the run, without a model, and return what to warn of.

    Rollout functions are not checked: their environments are their own.

    Raises:
        EnvironmentContractError: An environment does not replay, or breaks another promise that training rests on.
    """
    if not parts.settings.check_environment:
        return []
    warnings: list[str] = []
    for environment, scenarios in await _worlds(parts):
        if not scenarios:
            name = getattr(environment, "__name__", repr(environment))
            warnings.append(f"{name} was not checked: no scenario that is known beforehand is played in it")
            continue
        report = await check_environment(environment, scenarios, quick=True)
        _raise_if_untrainable(report)
        texts = [*(f"{finding.summary}; {finding.hint}" for finding in report.findings), *report.notes]
        warnings += [f"{report.environment}: {text}" for text in texts]
    return warnings


async def _worlds(parts: Parts) -> Iterable[tuple[Callable[[], Environment[Any]], list[Any]]]:
    """Return each environment of the run, with some scenarios that are played in it."""
    played = [(parts.rollout, await parts.feed.first(_READ_AHEAD)), *parts.played]
    worlds: dict[int, tuple[Callable[[], Environment[Any]], list[Any]]] = {}
    for rollout, scenarios in played:
        for task, one in rollouts_of(rollout).items():
            _, known = worlds.setdefault(id(one.environment), (one.environment, []))
            own = (scenario for scenario in scenarios if _task_of(rollout, scenario) == task)
            known += islice(own, _SCENARIOS - len(known))
    return worlds.values()


def _task_of(rollout: AnyRollout, scenario: Any) -> str:
    return rollout.find(scenario)[0] if isinstance(rollout, TaskRollout) else ""


def _raise_if_untrainable(report: EnvironmentReport) -> None:
    broken = tuple(finding for finding in report.findings if finding.code in _TRAINING_RESTS_ON)
    try:
        dataclasses.replace(report, findings=broken).raise_if_broken()
    except EnvironmentContractError as error:
        raise EnvironmentContractError(
            error.problem,
            f"{error.hint}; await check_environment(…) looks closer; "
            "TrainerSettings(check_environment=False) trains without this check",
        ) from None
