"""A rollout of several tasks, each with an environment of its own."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artkit.errors import ConfigurationError
from artkit.rollouts.attempt import Attempting, Failed, played_of, result_of
from artkit.rollouts.remembering import RememberingRollout
from artkit.rollouts.rollout import Rollout

if TYPE_CHECKING:
    import art

    from artkit.episodes import FailurePolicy
    from artkit.rollouts.attempt import Attempt
    from artkit.rollouts.sampling import Sampling
    from artkit.scenarios import Scenario

__all__ = ["TaskRollout", "rollouts_of", "takes_sampling", "with_sampling"]


@dataclasses.dataclass(frozen=True)
class TaskRollout:
    """Plays each scenario in the environment of its task, for data that mixes several.

        mixture = ScenarioMixture({"sums": (sums, 2), "words": (words, 1)})
        rollout = TaskRollout({"sums": Rollout(Sums), "words": Rollout(Words)}, mixture.task_of)

    The task is in the metadata of each episode, as `task`.

    Args:
        rollouts: The rollout of each task, by its name: a `Rollout`, or what `capture_partial` returns. All have the
            same failure policy.
        task_of: Names the task of a scenario.

    Raises:
        ConfigurationError: There is no task, something among them is no rollout, or two differ in their policy.
    """

    rollouts: Mapping[str, Attempting]
    task_of: Callable[[Any], str]

    def __post_init__(self) -> None:
        if not isinstance(self.rollouts, Mapping) or not self.rollouts:
            raise ConfigurationError(f"rollouts={self.rollouts!r} names no task", 'give {"sums": Rollout(Sums), …}')
        for task, rollout in self.rollouts.items():
            # An instance: a class has the same names.
            if isinstance(rollout, type | TaskRollout) or not isinstance(rollout, Attempting):
                raise ConfigurationError(
                    f"rollouts[{task!r}]={rollout!r} is no rollout of one task",
                    "give Rollout(MyEnvironment), or capture_partial(my_function)",
                )
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

    async def __call__(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> art.Trajectory:
        """Play `scenario` once; see `Rollout`."""
        return result_of(await self.attempt(model, scenario, member))

    async def attempt(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Attempt:
        """Play `scenario` once and return the episode, or the failure where there is none to return.

        Raises:
            ConfigurationError: The scenario is of a task that has no rollout.
        """
        task, rollout = self.find(scenario)
        try:
            attempt = await rollout.attempt(model, scenario, member)
        except asyncio.CancelledError as error:
            if (played := played_of(error)) is not None:
                played.metadata["task"] = task
            raise
        if not isinstance(attempt, Failed):
            attempt.metadata["task"] = task
        return attempt

    def find(self, scenario: Scenario) -> tuple[str, Attempting]:
        """Return the task of `scenario`, and its rollout.

        Raises:
            ConfigurationError: The scenario is of a task that has no rollout, or of none that `task_of` knows.
        """
        try:
            task = self.task_of(scenario)
        except Exception as error:
            raise ConfigurationError(
                f"task_of raised {type(error).__name__}: {error} for scenario {scenario.id!r}",
                "give one that knows every scenario, those held out for validation too",
            ) from error
        if task not in self.rollouts:
            raise ConfigurationError(
                f"scenario {scenario.id!r} is of task {task!r}, which has no rollout",
                f"give rollouts one for it beside {', '.join(map(repr, self.rollouts))}",
            )
        return task, self.rollouts[task]


def rollouts_of(rollout: object) -> dict[str, Rollout]:
    """Return each `Rollout` that `rollout` consists of, by its task; "" is the task of one alone.

    Functions, also those of `capture_partial`, have neither an environment nor sampling that is known, and are not
    among them.

    >>> rollouts_of(print)
    {}
    """
    if isinstance(rollout, RememberingRollout):
        return rollouts_of(rollout.rollout)
    if isinstance(rollout, TaskRollout):
        return {task: one for task, one in rollout.rollouts.items() if isinstance(one, Rollout)}
    return {"": rollout} if isinstance(rollout, Rollout) else {}


def takes_sampling(rollout: object) -> bool:
    """Whether `with_sampling` reaches all of `rollout`: how a function samples is its own.

    >>> takes_sampling(print)
    False
    """
    if isinstance(rollout, TaskRollout):
        return all(isinstance(one, Rollout) for one in rollout.rollouts.values())
    return isinstance(rollout, Rollout)


def with_sampling(rollout: Rollout | TaskRollout, change: Callable[[Sampling], Sampling]) -> Rollout | TaskRollout:
    """Return `rollout` with its sampling changed, in every task that is played by a `Rollout`."""
    if isinstance(rollout, TaskRollout):
        changed = {
            task: dataclasses.replace(one, sampling=change(one.sampling)) for task, one in rollouts_of(rollout).items()
        }
        return dataclasses.replace(rollout, rollouts={**rollout.rollouts, **changed})
    return dataclasses.replace(rollout, sampling=change(rollout.sampling))
