"""The reward adapter: scores a finished group, in place, without losing anything of it."""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from artkit.bridge import group_exception
from artkit.episodes import Episode, FailureKind, FailureRecord
from artkit.errors import ArtkitError, ConfigurationError, JudgeError, NothingToCompareError, RewardError
from artkit.rewards.lost_members import note_lost
from artkit.rewards.reading import Scored, Unscored, read_answer
from artkit.transport import own_cancellation

if TYPE_CHECKING:
    import art

    from artkit.rewards.score import Score

__all__ = ["Answer", "OnError", "RewardAdapter", "check_on_error", "who_is_scored"]

OnError: TypeAlias = Literal["raise", "drop_member", "drop_group"]

Answer: TypeAlias = "Score | float | BaseException | None"
"""What is said of one member: its score, the exception that scoring it ended in, or None: it could not be scored.

Any exception that `asyncio.gather(…, return_exceptions=True)` returns will do.
"""


class RewardAdapter(ABC):
    """Scores groups; an instance is usable as ART's `after_each` and as `reward=` of `gather_groups`.

    A subclass implements `score`. Calling the adapter then writes what `score` returned: `trajectory.reward`, metrics,
    and the explanation into the logs. The group that comes back is the one that was given, with its exceptions,
    metadata, metrics and logs. A member without a score is never rewarded with 0.0: it leaves `group.trajectories`,
    its cause joins `group.exceptions`, and if it is an `Episode`, its `failure` says so.
    Where a judge failed, the group has the metric `judge_errors`.

    Several groups are scored at the same time: `score` must not keep state between awaits that belongs to one group.

    Attributes:
        relative: Whether a score means something only beside its siblings' scores.
        on_error: What an exception while scoring, or a score that is no finite number, leads to: it is raised with
            nothing changed, its member is left unscored, or its whole group is. A wrong count of scores always raises,
            and so does an error that more scoring can't cure, such as a `ConfigurationError`.
        required_environment: The environment variables that scoring needs, such as a judge's key. The Trainer asks
            before its first rollout whether they are set.
        metric_names: The metrics of its scores whose names are known beforehand: no two parts of a `WeightedReward` may
            share one.
    """

    relative: bool = False
    on_error: OnError = "drop_member"
    required_environment: Sequence[str] = ()
    metric_names: Collection[str] = ()

    @abstractmethod
    async def score(self, group: art.TrajectoryGroup) -> Sequence[Answer]:
        """Return one answer for each of `group.trajectories`, in their order, and change nothing.

        An exception raised here counts for all members. Where only one member is concerned, return it in that
        member's place.
        """

    def reversed_order(self) -> RewardAdapter | None:
        """Return this reward with the order turned round in which it looks at the members.

        `diagnose_reward` asks: does a judge still say the same? None, as here: the order is that of the members, and
        turning the group round does it. A reward that chooses the order itself, such as RULER's, overrides this.
        """
        return None

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        """Score `group` in place and return it. An empty group is returned untouched.

        Raises:
            ConfigurationError: `on_error` is unknown.
            RewardError: `score` is not async, or there were more or fewer answers than members; or one was bad and
                `on_error` is "raise".
        """
        members = list(group.trajectories)
        results = await self.preview(group)
        if members:
            _write(group, members, results, type(self).__name__)
        return group

    async def preview(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        """Score `group` and write nothing: return what calling the adapter would write, member by member.

        Raises:
            ConfigurationError: `on_error` is unknown.
            RewardError: `score` is not async, or there were more or fewer answers than members; or one was bad and
                `on_error` is "raise".
        """
        check_on_error(self.on_error)
        size = len(group.trajectories)
        if not size:
            return []
        who = who_is_scored(self, group)
        try:
            with own_cancellation(type(self).__name__, RewardError):
                scoring = self.score(group)
                is_async = inspect.isawaitable(scoring)
                answers: object = await scoring if is_async else scoring
        except Exception as error:  # noqa: BLE001  # sorted by _settle, with those of single members
            return self._settle([Unscored(cause=error, is_error=True, who=who)] * size)
        if not is_async:
            msg = f"{who}: score() returned {reprlib.repr(answers)}, which cannot be awaited"
            raise RewardError(msg, "make it `async def score(self, group)`")
        return self._settle(_read(answers, size, who))

    def _settle(self, results: list[Scored | Unscored]) -> list[Scored | Unscored]:
        """Do what `on_error` says."""
        for result in results:
            if isinstance(result, Unscored) and result.is_error and self._raises(result.cause):
                if result.who:
                    result.cause.add_note(result.who)
                raise result.cause
        return _without_group(results) if self.on_error == "drop_group" else results

    def _raises(self, error: Exception) -> bool:
        is_incurable = isinstance(error, ArtkitError) and not isinstance(error, RewardError)
        return is_incurable or self.on_error == "raise"


def check_on_error(value: str) -> None:
    """Refuse an unknown `on_error`.

    Raises:
        ConfigurationError: If it is unknown.
    """
    if value not in get_args(OnError):
        msg = f"on_error={value!r} is unknown"
        raise ConfigurationError(msg, f"use one of {', '.join(map(repr, get_args(OnError)))}")


def who_is_scored(adapter: RewardAdapter, group: art.TrajectoryGroup) -> str:
    """Return the name of the adapter and of the scenario it scores, for an error's text."""
    for metadata in (group.metadata, *(member.metadata for member in group.trajectories)):
        if "scenario_id" in metadata:
            return f"{type(adapter).__name__}: scenario {metadata['scenario_id']!r}"
    return f"{type(adapter).__name__}: scenario unknown"


def _read(answers: object, size: int, who: str) -> list[Scored | Unscored]:
    """Check all answers before anything is written."""
    listed = _listed(answers)
    if listed is None:
        msg = f"{who}: score() returned {answers!r}, no sequence"
        raise RewardError(msg, "return one answer for each of group.trajectories, in their order")
    if len(listed) != size:
        msg = f"{who}: score() returned {len(listed)} answers for {size} members"
        raise RewardError(msg, "return one answer for each of group.trajectories, None for what can't be scored")
    return [read_answer(answer, f"{who}, member {number}") for number, answer in enumerate(listed)]


def _listed(answers: object) -> list[object] | None:
    """Return the answers, or None for what is no sequence."""
    if not isinstance(answers, Collection) or isinstance(answers, str | bytes | Mapping | AbstractSet):
        return None
    try:
        return list(answers)
    except TypeError:  # an array of no dimension
        return None


def _without_group(results: list[Scored | Unscored]) -> list[Scored | Unscored]:
    """Leave all members unscored if scoring one of them went wrong."""
    failed = [n for n, result in enumerate(results) if isinstance(result, Unscored) and result.is_error]
    if not failed:
        return results
    problem = f"left with its group, for member {failed[0]} could not be scored"
    sibling = Unscored(cause=RewardError(problem, 'on_error="drop_member" keeps the siblings'), is_error=False)
    return [result if isinstance(result, Unscored) else sibling for result in results]


def _write(
    group: art.TrajectoryGroup, members: Sequence[art.Trajectory], results: Sequence[Scored | Unscored], name: str
) -> None:
    kept = []
    for member, result in zip(members, results, strict=True):
        member.metrics.update(result.metrics)
        if isinstance(result, Scored):
            member.reward = result.reward
            if result.explanation is not None:
                member.logs.append(f"{name}: {result.explanation}")
            _forget_failure(member)
            kept.append(member)
        else:
            record = _record(result)
            if isinstance(member, Episode):
                member.failure = record
            member.metadata["failure_kind"] = str(FailureKind.REWARD)
            group.exceptions.append(group_exception(record))
            if not isinstance(result.cause, NothingToCompareError):
                note_lost(group, FailureKind.REWARD)
    group.trajectories = kept
    if any(isinstance(cause, JudgeError) for result in results for cause in result.causes):
        group.metrics["judge_errors"] = 1


def _record(result: Unscored) -> FailureRecord:
    record = FailureRecord.from_exception(result.cause, FailureKind.REWARD)
    # As a note would stand there; a note on an exception that several members share would name all of them.
    return dataclasses.replace(record, traceback=f"{record.traceback}{result.who}\n") if result.who else record


def _forget_failure(member: art.Trajectory) -> None:
    """A member that could not be scored once, and now was, such as one of a recording, has failed no more."""
    if member.metadata.get("failure_kind") == FailureKind.REWARD:
        member.metadata["failure_kind"] = None
        if isinstance(member, Episode):
            member.failure = None
