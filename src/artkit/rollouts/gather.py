"""Gathering groups of episodes: structured, in order, and honest about what was lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import art

from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import ConfigurationError
from artkit.rollouts.attempt import Attempt, Attempting, Failed
from artkit.rollouts.cancellation import own_cancellation
from artkit.rollouts.counts import GatherCounts
from artkit.rollouts.ending import finish
from artkit.rollouts.events import MemberFinished
from artkit.rollouts.failure_budget import FailureBudget
from artkit.rollouts.grouping import as_episode, build_group, failure_of
from artkit.rollouts.rollout import Rollout
from artkit.rollouts.scoring import GroupReward, score_group
from artkit.transport import sampling_session

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["AnyRollout", "GatheredGroups", "gather_groups"]

AnyRollout: TypeAlias = Callable[..., Awaitable[art.Trajectory]]


@dataclass(frozen=True)
class GatheredGroups:
    """What a gather brought back.

    Attributes:
        groups: One per scenario, in input order, members in order; a group whose rollouts all failed is empty and
            holds their exceptions.
        lost: Episodes that left their group, and are neither scored nor trained on.
        counts: How the rollouts ended.
    """

    groups: list[art.TrajectoryGroup] = field(default_factory=list)
    lost: list[art.Trajectory] = field(default_factory=list)
    counts: GatherCounts = field(default_factory=GatherCounts)


async def gather_groups(
    rollout: AnyRollout,
    model: art.Model[Any, Any],
    scenarios: Sequence[Scenario],
    *,
    rollouts_per_group: int = 4,
    reward: GroupReward | None = None,
    max_exceptions: float | None = None,
    max_concurrent: int | None = None,
    on_event: Callable[[MemberFinished], None] | None = None,
) -> GatheredGroups:
    """Play every scenario `rollouts_per_group` times and return the groups, scored.

    Takes the place of `art.gather_trajectory_groups`. Cancelling it cancels every rollout at once; when it raises, no
    rollout runs on.

    Args:
        rollout: A `Rollout`, the result of `capture_partial`, or any `async (model, scenario) -> art.Trajectory`.
        model: Any `art.Model` with an inference endpoint.
        scenarios: One group is gathered for each.
        rollouts_per_group: Members of each group.
        reward: Scores each group as soon as it is complete: a `RewardAdapter`, or any callable that fits ART's
            `after_each`. None leaves the rewards as the rollouts set them.
        max_exceptions: How many rollouts may fail before the gather stops; strictly between 0 and 1 a share of all.
            None stops only when every rollout failed.
        max_concurrent: Rollouts in flight at once, over all groups. None means no limit.
        on_event: Told of each rollout as it ends; must return quickly.

    Raises:
        ConfigurationError: A count that is not positive.
        AllRolloutsFailedError: Every rollout failed, or more than `max_exceptions`; names the first cause and counts.
        OutageError: A failure that no rollout can escape, such as a refused key.
        RewardError: The reward broke its contract, or an adapter with `on_error="raise"` could not score.
    """
    for name, value in (("rollouts_per_group", rollouts_per_group), ("max_concurrent", max_concurrent)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name}={value!r} is not positive", "give at least 1")
    rollouts = rollouts_per_group * len(scenarios)
    gather = _Gather(
        rollout=rollout,
        model=model,
        budget=FailureBudget(rollouts, max_exceptions),
        slots=asyncio.Semaphore(max_concurrent or rollouts),
        on_event=on_event,
    )
    async with _session(rollout, model), _tasks() as tasks:
        running = [tasks.create_task(gather.group(item, rollouts_per_group, reward)) for item in scenarios]
    return gather.result([task.result() for task in running])


@dataclass(kw_only=True)
class _Gather:
    """One gather at work: what its groups share."""

    rollout: AnyRollout
    model: art.Model[Any, Any]
    budget: FailureBudget
    slots: asyncio.Semaphore
    on_event: Callable[[MemberFinished], None] | None
    started: int = 0
    failed: Counter[str] = field(default_factory=Counter)

    async def group(
        self, scenario: Scenario, size: int, reward: GroupReward | None
    ) -> tuple[art.TrajectoryGroup, list[art.Trajectory]]:
        async with _tasks() as tasks:
            members = [tasks.create_task(self._member(scenario, member)) for member in range(size)]
        group, lost = build_group(scenario, [task.result() for task in members], self._policy)
        lost += await score_group(group, reward)
        return group, lost

    async def _member(self, scenario: Scenario, member: int) -> Attempt:
        await self.slots.acquire()
        self.started += 1
        started_s = time.perf_counter()
        attempt = await self._attempt(scenario, member, started_s)
        seconds = time.perf_counter() - started_s
        failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
        self._tell(scenario, member, seconds, attempt, failure)
        if isinstance(attempt, Failed):
            self.failed[str(attempt.record.kind)] += 1
            self.budget.fail(attempt.record, attempt.error)
        elif failure is None or self._policy.keeps(failure.kind):
            self.budget.succeed()
        else:
            self.budget.fail(failure)
        # Whoever raised above has stopped the gather, and keeps the slot: nobody else is to start.
        self.slots.release()
        return attempt

    async def _attempt(self, scenario: Scenario, member: int, started_s: float) -> Attempt:
        if isinstance(self.rollout, Attempting):
            return await self.rollout.attempt(self.model, scenario, member)
        try:
            with own_cancellation():
                returned = await self.rollout(self.model, scenario)
            trajectory = as_episode(returned, scenario, member)
        except Exception as error:  # noqa: BLE001  # a user's rollout may raise anything; it is recorded
            kind = self._policy.classify(error, waiting_for="environment")
            return Failed(error, FailureRecord.from_exception(error, kind))
        return finish(trajectory, started_s=started_s) if isinstance(trajectory, Episode) else trajectory

    def _tell(
        self, scenario: Scenario, member: int, seconds: float, attempt: Attempt, failure: FailureRecord | None
    ) -> None:
        if self.on_event is not None:
            episode = attempt if isinstance(attempt, Episode) else None
            self.on_event(
                MemberFinished(
                    scenario_id=scenario.id, member=member, seconds=seconds, episode=episode, failure=failure
                )
            )

    @property
    def _policy(self) -> FailurePolicy:
        return self.rollout.failure_policy if isinstance(self.rollout, Attempting) else FailurePolicy()

    def result(self, grouped: list[tuple[art.TrajectoryGroup, list[art.Trajectory]]]) -> GatheredGroups:
        groups = [group for group, _ in grouped]
        lost = [trajectory for _, members in grouped for trajectory in members]
        counts = GatherCounts(
            started=self.started,
            grouped=sum(len(group.trajectories) for group in groups),
            # Only scoring loses what holds no failure of its own: a trajectory of a user's class.
            lost=Counter(str(failure.kind if (failure := failure_of(item)) else FailureKind.REWARD) for item in lost),
            failed=self.failed,
        )
        return GatheredGroups(groups, lost, counts)


def _session(rollout: AnyRollout, model: art.Model[Any, Any]) -> contextlib.AbstractAsyncContextManager[Any]:
    # One client for all rollouts of the gather. Other callables bring their own.
    return sampling_session(model) if isinstance(rollout, Rollout) else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a task group that raises its first failure as it is; a group around it would say nothing more."""
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        failure = errors.exceptions[0]
    if failure is not None:
        raise failure
