"""Sorting episodes by the scenario they were played in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from artkit.bridge.safe_values import safe_json
from artkit.errors import ConfigurationError
from artkit.rewards.turns import prompt

if TYPE_CHECKING:
    import art

__all__ = ["by_scenario", "of_scenarios"]

_SHOWN = 3


def by_scenario(episodes: Iterable[art.Trajectory | art.TrajectoryGroup]) -> dict[str, list[art.Trajectory]]:
    """Return the episodes by their scenario: by its id, or else by the prompt.

    Raises:
        ConfigurationError: One of them is neither an episode nor a group.
    """
    found: dict[str, list[art.Trajectory]] = {}
    for scenario_id, episode in _each(episodes):
        found.setdefault(_prompt(episode) if scenario_id is None else scenario_id, []).append(episode)
    return found


def of_scenarios(
    episodes: Iterable[art.Trajectory | art.TrajectoryGroup], scenarios: Mapping[str, list[art.Trajectory]]
) -> dict[str, list[art.Trajectory]]:
    """Return the episodes by which of `scenarios` they are of: by its id, or else by the prompt.

    Raises:
        ConfigurationError: One is of none of them, or is neither an episode nor a group.
    """
    by_prompt = {_prompt(members[0]): name for name, members in reversed(list(scenarios.items()))}
    found: dict[str, list[art.Trajectory]] = {}
    strangers = []
    for scenario_id, episode in _each(episodes):
        name = scenario_id if scenario_id in scenarios else by_prompt.get(_prompt(episode))
        if name is None:
            strangers.append(scenario_id or _prompt(episode))
        else:
            found.setdefault(name, []).append(episode)
    if strangers:
        more = ", …" if len(strangers) > _SHOWN else ""
        raise ConfigurationError(
            f"{len(strangers)} known-good episodes are of no scenario of the others: "
            f"{', '.join(strangers[:_SHOWN])}{more}",
            "give them the scenario, its id as metadata['scenario_id'], or the same prompt",
        )
    return found


def _each(episodes: Iterable[art.Trajectory | art.TrajectoryGroup]) -> Iterator[tuple[str | None, art.Trajectory]]:
    """Yield each episode after the id of its scenario, if it or its group has one."""
    import art

    for item in episodes:
        if not isinstance(item, art.Trajectory | art.TrajectoryGroup):
            raise ConfigurationError(
                f"among the episodes is a {type(item).__name__}",
                "give episodes or groups; read_groups returns two lists, the groups and the lost episodes",
            )
        members = item.trajectories if isinstance(item, art.TrajectoryGroup) else [item]
        for episode in members:
            name = episode.metadata.get("scenario_id", item.metadata.get("scenario_id"))
            yield None if name is None else str(name), episode


def _prompt(episode: art.Trajectory) -> str:
    return json.dumps(safe_json(prompt(episode)), sort_keys=True, ensure_ascii=False)
