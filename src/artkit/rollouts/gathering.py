"""One gather at work: who plays next, what comes of it, and when a group is complete."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import art

from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import NothingToCompareError
from artkit.rollouts.attempt import Attempt, Attempting, Failed, played_of
from artkit.rollouts.counts import GatherCounts
from artkit.rollouts.deadlines import gather_deadline, is_time_left, passed
from artkit.rollouts.events import GatherNotice, MemberFinished
from artkit.rollouts.gathered import GatheredGroups
from artkit.rollouts.grouping import build_group, failure_of
from artkit.rollouts.replies import requests_told_to
from artkit.rollouts.scoring import GroupReward, score_group
from artkit.rollouts.stragglers import Stragglers
from artkit.rollouts.watch import Watch
from artkit.transport import first_failure_group, stragglers_told_to
from artkit.transport.fewer_collections import fewer_collections

if TYPE_CHECKING:
    from artkit.rollouts.failure_budget import FailureBudget
    from artkit.scenarios import Scenario

__all__ = ["Gathering"]

_LOG = logging.getLogger(__name__)
_ALIKE = NothingToCompareError.__qualname__
_GroupAndLost: TypeAlias = tuple[art.TrajectoryGroup, list[art.Trajectory]]


@dataclass(kw_only=True)
class _Group:
    """One group on its way.

    Attributes:
        number: Its place among the groups.
        scenario: What is played.
        size: How many members it is to have.
        members: What came of each that is over: an episode, or a failure in its place.
        next_member: The number of the next further member.
        unfinished: How many members are still to come.
        scored: The group as its reward has left it, and who left it; None while it was not scored.
    """

    number: int
    scenario: Scenario
    size: int
    members: dict[int, art.Trajectory | FailureRecord] = field(default_factory=dict)
    next_member: int = 0
    unfinished: int = 0
    scored: _GroupAndLost | None = None

    @property
    def refilled(self) -> int:
        return self.next_member - self.size


@dataclass(kw_only=True)
class Gathering:
    """Plays all groups, in order, and scores each as soon as it is complete. Used once.

    Args:
        rollout: What plays.
        model: Who is asked.
        scenarios: One group is gathered for each.
        rollouts_per_group: Members of each.
        reward: Who scores a group; None scores none.
        budget: Says when failures stop it all.
        max_concurrent: Rollouts at once, over all groups; None is no limit.
        timeout_s: When rollouts that still play are ended, in seconds from the start; None is never.
        on_event: Told of each rollout as it ends.
        on_notice: Told where nothing ends, and where the event loop does not turn; None logs it.
    """

    rollout: Attempting
    model: art.Model[Any, Any]
    scenarios: Sequence[Scenario]
    rollouts_per_group: int
    reward: GroupReward | None
    budget: FailureBudget
    max_concurrent: int | None
    timeout_s: float | None
    on_event: Callable[[MemberFinished], None] | None
    on_notice: Callable[[GatherNotice], None] | None
    _groups: list[_Group] = field(init=False)
    _waiting: list[tuple[int, int]] = field(init=False, default_factory=list)  # a heap of groups and members
    _running: dict[tuple[int, int], str] = field(init=False, default_factory=dict)
    _scoring: dict[int, str] = field(init=False, default_factory=dict)
    _stragglers: Stragglers = field(init=False, default_factory=Stragglers)
    _tasks: asyncio.TaskGroup = field(init=False)
    _context: contextvars.Context = field(init=False)
    _watch: Watch = field(init=False)
    _fatal: tuple[int, int] | None = field(init=False, default=None)
    _replayed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        size = self.rollouts_per_group
        self._groups = [_Group(number=n, scenario=one, size=size) for n, one in enumerate(self.scenarios)]
        self._watch = Watch(self._running.values, self.on_notice or _log, scoring=self._scoring.values)

    async def run(self, session: contextlib.AbstractAsyncContextManager[Any]) -> None:
        """Gather, inside `session`. What comes of it, also where this raises, is in `result`."""
        try:
            async with session:
                with gather_deadline(self.timeout_s), fewer_collections(), self._watch:
                    await self._play()
        finally:
            if abandoned := self._stragglers.abandoned:
                _log(f"{_named(abandoned)} went on after being cancelled and were given up")

    async def _play(self) -> None:
        async with first_failure_group() as self._tasks:
            # Each task begins with this, and not with what the rollout before it has left.
            self._context = contextvars.copy_context()
            for group in self._groups:
                self._add(group, group.size)
            self._start()

    def _add(self, group: _Group, count: int) -> None:
        for _ in range(count):
            heapq.heappush(self._waiting, (group.number, group.next_member))
            group.next_member += 1
            group.unfinished += 1

    def _start(self) -> None:
        """Start who waits, the first groups first, so that these are complete early and judged early."""
        while self._waiting and (self.max_concurrent is None or len(self._running) < self.max_concurrent):
            number, member = heapq.heappop(self._waiting)
            group = self._groups[number]
            self._running[number, member] = group.scenario.id
            self._tasks.create_task(self._member(group, member), context=self._context.copy())

    async def _member(self, group: _Group, member: int) -> None:
        started_s = time.perf_counter()
        straggles = stragglers_told_to(self._stragglers.note_of(f"{group.scenario.id}, member {member}"))
        asks = requests_told_to(self.budget.unanswered.note_reply, self._fatal_note(group, member, started_s))
        with straggles, asks as requests:
            try:
                attempt = await self._attempt(group, member)
            except asyncio.CancelledError as error:
                if (played := played_of(error)) is not None:
                    group.members[member] = played
                raise
        request_error = requests.take_error()
        if self._fatal == (group.number, member):
            return  # it was taken in then
        failure = self._note(group, member, started_s, attempt)
        if self._fatal is not None:
            return  # all others are being cancelled
        # First, for who is played in its place may succeed where all others failed; none is started yet.
        self._refill(group)
        if isinstance(attempt, Failed):
            self.budget.fail(attempt.record, attempt.error, attempt.request_error)
        elif failure is None:
            self.budget.unanswered.note_reply()
        elif self.rollout.failure_policy.keeps(failure.kind):
            self.budget.keep(failure, request_error)
        else:
            self.budget.fail(failure, request_error=request_error)
        # Whoever raised above has stopped the gather, and keeps its place: nobody else is to start.
        del self._running[group.number, member]
        group.unfinished -= 1
        if not group.unfinished:
            self._tasks.create_task(self._score(group), context=self._context.copy())
        self._start()

    def _note(self, group: _Group, member: int, started_s: float, attempt: Attempt) -> FailureRecord | None:
        """Take in how a member ended, tell of it, and return what went wrong."""
        self._watch.note_end()
        failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
        # Not the exception: its traceback holds the environment and all that it has.
        group.members[member] = attempt.record if isinstance(attempt, Failed) else attempt
        replays = attempt.replays if isinstance(attempt, Failed) else attempt.metadata.get("replays")
        self._replayed += replays if isinstance(replays, int) else 0
        self._tell(group, member, time.perf_counter() - started_s, attempt, failure)
        return failure

    def _fatal_note(self, group: _Group, member: int, started_s: float) -> Callable[[Failed], None]:
        """Return what stops the gather at a fatal failure of a member."""
        # A rollout that was given up keeps this for as long as it runs.
        to, place = weakref.ref(self), group.number

        def note(failed: Failed) -> None:
            if (gathering := to()) is not None:
                gathering._stop(place, member, started_s, failed)  # noqa: SLF001  # it is the same object

        return note

    def _stop(self, number: int, member: int, started_s: float, failed: Failed) -> None:
        if self._fatal is not None:
            return
        self._fatal = number, member
        self._note(self._groups[number], member, started_s, failed)

        async def fail() -> None:
            self.budget.fail(failed.record, failed.error, failed.request_error)

        self._tasks.create_task(fail())

    async def _attempt(self, group: _Group, member: int) -> Attempt:
        if is_time_left():
            return await self.rollout.attempt(self.model, group.scenario, member)
        late = TimeoutError(f"{passed(self.timeout_s or 0)} before it was this rollout's turn")
        return Failed(late, FailureRecord.from_exception(late, FailureKind.INFRASTRUCTURE))

    def _refill(self, group: _Group) -> None:
        """Have further members played in place of those that left the group."""
        if not is_time_left():
            return
        policy = self.rollout.failure_policy
        records = [one if isinstance(one, FailureRecord) else failure_of(one) for one in group.members.values()]
        left = [one.kind for one in records if one is not None and not policy.keeps(one.kind)]
        if count := policy.refill_count(left, after=group.refilled):
            self.budget.add(count)
            self._add(group, count)

    async def _score(self, group: _Group) -> None:
        built, lost = self._built(group)
        self._scoring[group.number] = group.scenario.id
        try:
            lost += await score_group(built, self.reward)
        finally:
            del self._scoring[group.number]
        self._watch.note_end()
        group.scored = built, lost

    def _tell(
        self, group: _Group, member: int, seconds: float, attempt: Attempt, failure: FailureRecord | None
    ) -> None:
        if self.on_event is not None:
            episode = attempt if isinstance(attempt, Episode) else None
            self.on_event(
                MemberFinished(
                    scenario_id=group.scenario.id, member=member, seconds=seconds, episode=episode, failure=failure
                )
            )

    def result(self) -> GatheredGroups:
        """Return all that was finished; a group that was not scored yet as the rollouts left it."""
        grouped = [group.scored or self._built(group) for group in self._groups]
        groups = [group for group, _ in grouped]
        lost = [trajectory for _, members in grouped for trajectory in members]
        finished = [one for group in self._groups for one in group.members.values()]
        failed = [one for one in finished if isinstance(one, FailureRecord)]
        causes = [one for one in (*failed, *map(failure_of, lost)) if one is not None and one.type != _ALIKE]
        counts = GatherCounts(
            started=len(finished),
            grouped=sum(len(group.trajectories) for group in groups),
            # Only scoring loses what holds no failure of its own: a trajectory of a user's class.
            lost=Counter(str(failure.kind if (failure := failure_of(item)) else FailureKind.REWARD) for item in lost),
            failed=Counter(str(one.kind) for one in failed),
            alike=sum(record.type == _ALIKE for group in groups for record in group.exceptions),
            causes=Counter(one.headline for one in causes),
            late_results=self._stragglers.late_results,
            abandoned=len(self._stragglers.abandoned),
            replayed=self._replayed,
            refilled=sum(member >= group.size for group in self._groups for member in group.members),
        )
        return GatheredGroups(groups, lost, counts, tuple(self._stragglers.abandoned), self._watch.longest)

    def _built(self, group: _Group) -> _GroupAndLost:
        in_order = [group.members[member] for member in sorted(group.members)]
        return build_group(group.scenario, in_order, self.rollout.failure_policy)


def _log(notice: object) -> None:
    _LOG.warning("%s", notice)


def _named(names: Sequence[str]) -> str:
    shown = "; ".join(names[:5]) + ("; …" if len(names) > 5 else "")
    return f"{len(names)} of the rollouts ({shown})"
