"""A rollout of several tasks, each with an environment of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.rollouts.attempt import Failed
from artkit.rollouts.remembering import RememberingRollout
from artkit.rollouts.rollout import Rollout

if TYPE_CHECKING:
    import art

    from artkit.episodes import Episode, FailurePolicy
    from artkit.rollouts.sampling import Sampling
    from artkit.scenarios import Scenario

__all__ = ["TaskRollout", "rollouts_of", "with_sampling"]


@dataclasses.dataclass(frozen=True)
class TaskRollout:
    """Plays each scenario in the environment of its task, for data that mixes several.

        mixture = ScenarioMixture({"sums": (sums, 2), "words": (words, 1)})
        rollout = TaskRollout({"sums": Rollout(Sums), "words": Rollout(Words)}, mixture.task_of)

    The task is in the metadata of each episode, as `task`.

    Args:
        rollouts: The rollout of each task, by its name. All have the same failure policy.
        task_of: Names the task of a scenario.

    Raises:
        ConfigurationError: There is no task, something among them is no `Rollout`, or two differ in their policy.
    """

    rollouts: Mapping[str, Rollout]
    task_of: Callable[[Any], str]

    def __post_init__(self) -> None:
        if not isinstance(self.rollouts, Mapping) or not self.rollouts:
            raise ConfigurationError(f"rollouts={self.rollouts!r} names no task", 'give {"sums": Rollout(Sums), …}')
        for task, rollout in self.rollouts.items():
            if not isinstance(rollout, Rollout):
                raise ConfigurationError(f"rollouts[{task!r}]={rollout!r} is no Rollout", "give Rollout(MyEnvironment)")
        if any(rollout.failure_policy != self.failure_policy for rollout in self.rollouts.values()):
            raise ConfigurationError("the tasks differ in their failure_policy", "give all of them the same")
        if not callable(self.task_of):
            raise ConfigurationError(
                f"task_of={self.task_of!r} is no function", "give one that names the task of a scenario"
            )

    @property
    def failure_policy(self) -> FailurePolicy:
        """What follows from each kind of failure, in every task."""
        return next(iter(self.rollouts.values())).failure_policy

    async def __call__(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Episode:
        """Play `scenario` once; see `Rollout`."""
        attempt = await self.attempt(model, scenario, member)
        if isinstance(attempt, Failed):
            raise attempt.error
        return attempt

    async def attempt(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Episode | Failed:
        """Play `scenario` once and return the episode, or the failure where there is none to return.

        Raises:
            ConfigurationError: The scenario is of a task that has no rollout.
        """
        task = self.task_of(scenario)
        if task not in self.rollouts:
            raise ConfigurationError(
                f"scenario {scenario.id!r} is of task {task!r}, which has no rollout",
                f"give rollouts one for it beside {', '.join(map(repr, self.rollouts))}",
            )
        attempt = await self.rollouts[task].attempt(model, scenario, member)
        if not isinstance(attempt, Failed):
            attempt.metadata["task"] = task
        return attempt


def rollouts_of(rollout: object) -> dict[str, Rollout]:
    """Return the rollouts that `rollout` consists of, by their tasks; "" is the task of one alone. None of a function.

    >>> rollouts_of(print)
    {}
    """
    if isinstance(rollout, RememberingRollout):
        return rollouts_of(rollout.rollout)
    if isinstance(rollout, TaskRollout):
        return dict(rollout.rollouts)
    return {"": rollout} if isinstance(rollout, Rollout) else {}


def with_sampling(rollout: Rollout | TaskRollout, change: Callable[[Sampling], Sampling]) -> Rollout | TaskRollout:
    """Return `rollout` with its sampling changed, in every task."""
    if isinstance(rollout, TaskRollout):
        changed = {
            task: dataclasses.replace(one, sampling=change(one.sampling)) for task, one in rollout.rollouts.items()
        }
        return dataclasses.replace(rollout, rollouts=changed)
    return dataclasses.replace(rollout, sampling=change(rollout.sampling))
