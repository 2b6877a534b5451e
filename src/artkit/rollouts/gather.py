"""Gathering groups of episodes: structured, in order, and honest about what was lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import art

from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import (
    AllRolloutsFailedError,
    ConfigurationError,
    NothingToCompareError,
    OutageError,
    RewardError,
)
from artkit.rollouts.attempt import Attempt, Attempting, Failed
from artkit.rollouts.capture_partial import CapturedRollout
from artkit.rollouts.counts import GatherCounts
from artkit.rollouts.events import MemberFinished
from artkit.rollouts.failure_budget import FailureBudget
from artkit.rollouts.grouping import build_group, failure_of
from artkit.rollouts.scoring import GroupReward, score_group
from artkit.rollouts.task_rollout import rollouts_of
from artkit.transport import first_failure_group, sampling_session

if TYPE_CHECKING:
    from artkit.scenarios import Scenario

__all__ = ["AnyRollout", "GatheredGroups", "attempting", "gather_groups"]

AnyRollout: TypeAlias = Callable[..., Awaitable[art.Trajectory]]
_ALIKE = NothingToCompareError.__qualname__
_GroupAndLost: TypeAlias = tuple[art.TrajectoryGroup, list[art.Trajectory]]


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
        rollout: A `Rollout`, the result of `capture_partial`, or any `async (model, scenario) -> art.Trajectory`, which
            is wrapped as `capture_partial` does it.
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

    The last three carry what was finished by then, as `error.gathered`.
    """
    for name, value in (("rollouts_per_group", rollouts_per_group), ("max_concurrent", max_concurrent)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name}={value!r} is not positive", "give at least 1")
    rollouts = rollouts_per_group * len(scenarios)
    gather = _Gather(
        rollout=attempting(rollout),
        model=model,
        scenarios=scenarios,
        reward=reward,
        budget=FailureBudget(rollouts, max_exceptions),
        slots=asyncio.Semaphore(max_concurrent or rollouts),
        on_event=on_event,
    )
    try:
        async with _session(rollout, model), first_failure_group() as tasks:
            for number in range(len(scenarios)):
                tasks.create_task(gather.group(number, rollouts_per_group))
    except (AllRolloutsFailedError, OutageError, RewardError) as error:
        error.gathered = gather.result()
        raise
    return gather.result()


def attempting(rollout: AnyRollout) -> Attempting:
    """Return `rollout` as one that can say what a failure was."""
    if isinstance(rollout, Attempting):
        return rollout
    return CapturedRollout(rollout, FailurePolicy(), takes_episode=False)


@dataclass(kw_only=True)
class _Gather:
    """One gather at work: what its groups share."""

    rollout: Attempting
    model: art.Model[Any, Any]
    scenarios: Sequence[Scenario]
    reward: GroupReward | None
    budget: FailureBudget
    slots: asyncio.Semaphore
    on_event: Callable[[MemberFinished], None] | None
    attempts: defaultdict[int, dict[int, Attempt]] = field(default_factory=lambda: defaultdict(dict))
    scored: dict[int, _GroupAndLost] = field(default_factory=dict)

    async def group(self, number: int, size: int) -> None:
        async with first_failure_group() as tasks:
            for member in range(size):
                tasks.create_task(self._member(number, member))
        group, lost = self._built(number)
        lost += await score_group(group, self.reward)
        self.scored[number] = group, lost

    async def _member(self, number: int, member: int) -> None:
        await self.slots.acquire()
        scenario = self.scenarios[number]
        started_s = time.perf_counter()
        attempt = await self.rollout.attempt(self.model, scenario, member)
        seconds = time.perf_counter() - started_s
        self.attempts[number][member] = attempt
        failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
        self._tell(scenario, member, seconds, attempt, failure)
        if isinstance(attempt, Failed):
            self.budget.fail(attempt.record, attempt.error, attempt.request_error)
        elif failure is None or self.rollout.failure_policy.keeps(failure.kind):
            self.budget.succeed()
        else:
            self.budget.fail(failure)
        # Whoever raised above has stopped the gather, and keeps the slot: nobody else is to start.
        self.slots.release()

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

    def result(self) -> GatheredGroups:
        """Return all that was finished; a group that was not scored yet as the rollouts left it."""
        grouped = [self.scored.get(number) or self._built(number) for number in range(len(self.scenarios))]
        groups = [group for group, _ in grouped]
        lost = [trajectory for _, members in grouped for trajectory in members]
        finished = [attempt for members in self.attempts.values() for attempt in members.values()]
        counts = GatherCounts(
            started=len(finished),
            grouped=sum(len(group.trajectories) for group in groups),
            # Only scoring loses what holds no failure of its own: a trajectory of a user's class.
            lost=Counter(str(failure.kind if (failure := failure_of(item)) else FailureKind.REWARD) for item in lost),
            failed=Counter(str(attempt.record.kind) for attempt in finished if isinstance(attempt, Failed)),
            alike=sum(record.type == _ALIKE for group in groups for record in group.exceptions),
        )
        return GatheredGroups(groups, lost, counts)

    def _built(self, number: int) -> _GroupAndLost:
        members = self.attempts[number]
        in_order = [members[member] for member in sorted(members)]
        return build_group(self.scenarios[number], in_order, self.rollout.failure_policy)


def _session(rollout: AnyRollout, model: art.Model[Any, Any]) -> contextlib.AbstractAsyncContextManager[Any]:
    # One client for all rollouts of the gather. Other callables bring their own.
    return sampling_session(model) if rollouts_of(rollout) else contextlib.nullcontext()
