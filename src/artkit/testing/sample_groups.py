"""Groups to hold a reward against: made-up ones, copies, and what is in them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import art

from artkit.scenarios import PromptScenario
from artkit.testing.episodes import choice, episode

if TYPE_CHECKING:
    from artkit.episodes import Episode

__all__ = ["copy_group", "group_state", "kept_items", "made_up_groups"]


def copy_group(group: art.TrajectoryGroup, members: Sequence[int] | None = None) -> art.TrajectoryGroup:
    """Return a copy of `group`, or of some of its members, that can be changed without changing it."""
    own = {"metrics": dict(group.metrics), "metadata": dict(group.metadata), "logs": list(group.logs)}
    numbers = range(len(group.trajectories)) if members is None else members
    trajectories = [copy.deepcopy(group.trajectories[number]) for number in numbers]
    return group.model_copy(update={**own, "trajectories": trajectories, "exceptions": list(group.exceptions)})


def group_state(group: art.TrajectoryGroup) -> dict[str, str]:
    """Return what scoring must leave alone, as text: NaN is not equal to itself."""
    members = group.trajectories
    names = dict.fromkeys(name for member in members for name in vars(member))
    return {
        **{name: repr(value) for name, value in vars(group).items() if name != "trajectories"},
        **{f"members' {name}": repr([vars(member).get(name) for member in members]) for name in names},
    }


def kept_items(group: art.TrajectoryGroup) -> dict[str, set[str]]:
    """Return what a group must not lose, item by item, as text."""
    return {
        "metadata": set(map(repr, group.metadata.items())),
        "metrics": set(map(repr, group.metrics.items())),
        "logs": set(group.logs),
        "exceptions": set(map(repr, group.exceptions)),
    }


def made_up_groups() -> list[art.TrajectoryGroup]:
    """Return two groups of a right, a wrong, an empty and a plain reply each."""
    sums = {"What is 2 + 3?": "5", "What is 7 + 8?": "15"}
    return [_made_up_group(f"sum-{label}", question, label) for question, label in sums.items()]


def _made_up_group(scenario_id: str, question: str, label: str) -> art.TrajectoryGroup:
    scenario = PromptScenario(id=scenario_id, messages=question, label=label)  # type: ignore[arg-type]  # a str is one user message

    def played(reply: str) -> Episode:
        return episode(question, choice(reply), scenario=scenario, metrics={"turns": 1})

    plain = art.Trajectory(
        messages_and_choices=[{"role": "user", "content": question}, choice(label)],
        metadata={"scenario_id": scenario_id, "label": label},
    )
    members = [played(label), played("42"), played(""), plain]
    return art.TrajectoryGroup(members, metadata={"scenario_id": scenario_id})
