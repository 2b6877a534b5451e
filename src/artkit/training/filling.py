"""Filling a batch: play, score, filter, and replace what the filters dropped."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from artkit.episodes import FailureKind, read_groups, write_groups
from artkit.errors import AllRolloutsFailedError
from artkit.rewards import FilterResult
from artkit.rollouts import GatheredGroups, gather_groups
from artkit.rollouts.failure_budget import allowed_failures
from artkit.tracking import Warned
from artkit.training.failure_window import causes_of
from artkit.training.policy_steps import PolicySteps

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Cursor, Scenario
    from artkit.training.broadcast import Broadcast
    from artkit.training.parts import Parts
    from artkit.training.reader import Drawn, Reader
    from artkit.training.rows import RowWriter
    from artkit.training.run_state import RunState

__all__ = ["FilledBatch", "Filler"]

_KEPT = "kept"


@dataclass(kw_only=True)
class FilledBatch:
    """A batch on its way to `train`: `sampled + carried == trainable + dropped + kept`, in groups.

    Attributes:
        index: Its number in the run, from 0.
        size: How many groups are trained on at most.
        carried: Groups that the batch before left over; they are the first to be trained on.
        carried_from: The number of that batch.
        epoch: The epoch of its scenarios, from 0.
        cursor: Where the next batch starts.
        ends_epoch: Whether no scenario of the epoch is left to play.
        sampled: All that was played for it.
        passed: Sampled groups that no filter dropped, in order.
        dropped: The others, each with the reason.
        drop_counts: How many groups each filter dropped, by its name; "empty" are those without a member.
    """

    index: int
    size: int
    carried: Sequence[art.TrajectoryGroup]
    carried_from: int
    epoch: int
    cursor: Cursor
    ends_epoch: bool = False
    sampled: GatheredGroups = field(default_factory=GatheredGroups)
    passed: list[art.TrajectoryGroup] = field(default_factory=list)
    dropped: list[tuple[art.TrajectoryGroup, str]] = field(default_factory=list)
    drop_counts: Counter[str] = field(default_factory=Counter)

    @property
    def trainable(self) -> list[art.TrajectoryGroup]:
        """What is trained on."""
        return [*self.carried, *self.passed][: self.size]

    @property
    def kept(self) -> list[art.TrajectoryGroup]:
        """What is left over for the next batch."""
        return [*self.carried, *self.passed][self.size :]

    @property
    def is_epoch_end(self) -> bool:
        """Whether it is the last of its epoch."""
        return self.ends_epoch and not self.kept

    @property
    def is_unscored(self) -> bool:
        """Whether no episode could be scored, so that what the batch would have taught is not known."""
        counts = self.sampled.counts
        return counts.started > 0 and not counts.grouped and not counts.alike

    @property
    def groups(self) -> list[art.TrajectoryGroup]:
        """All groups whose place is in this batch's row: those that are not kept for the next one's."""
        kept = {id(group) for group in self.kept}
        return [group for group in (*self.carried, *self.sampled.groups) if id(group) not in kept]

    @property
    def reasons(self) -> dict[str, int]:
        """How many groups were dropped for each reason."""
        return Counter(reason for _, reason in self.dropped)

    def take(self, drawn: Drawn, cursor: Cursor, gathered: GatheredGroups) -> None:
        """Add the groups of `drawn`; `sort` follows."""
        self.epoch, self.ends_epoch, self.cursor = drawn.epoch, drawn.is_epoch_end, cursor
        self.sampled += gathered

    def sort(self, filtered: FilterResult) -> None:
        """Say of the groups that were added last which are trained on."""
        self.dropped += filtered.dropped
        self.drop_counts.update(filtered.counts)
        for group in filtered.kept:
            if group.trajectories:
                self.passed.append(group)
            else:
                self.dropped.append((group, "no member is left"))
                self.drop_counts["empty"] += 1

    def wanted(self, budget: int) -> int:
        """Return how many more scenarios to play, `budget` at most.

        As many as will fill the batch if groups are dropped as often as so far, but no more than could be trained on
        in this batch and the next: what is left over waits for one step of training, and for no second one.
        """
        missing = self.size - len(self.carried) - len(self.passed)
        counts = self.sampled.counts
        if missing <= 0 or self.ends_epoch or not (counts.grouped or counts.alike):
            return 0
        sampled = len(self.sampled.groups)
        likely = -(-missing * sampled // len(self.passed)) if self.passed else missing + self.size
        return min(budget, likely, missing + self.size)


class Filler:
    """Fills the batches of a session.

    Args:
        parts: What the run is made of.
        rows: Knows where recordings are.
        tell: Who is told.

    Attributes:
        steps: Knows which steps of the policy are sampled from.
    """

    def __init__(self, parts: Parts, rows: RowWriter, tell: Broadcast) -> None:
        self.steps = PolicySteps()
        self._parts = parts
        self._rows = rows
        self._tell = tell
        self._carried: Sequence[art.TrajectoryGroup] = ()
        self._carried_epoch = self._carried_from = 0

    def restore(self, state: RunState) -> None:
        """Load what the last batch of an earlier session left over."""
        if state.batch is None or not state.batch.kept:
            return
        path = self._rows.recording(state.batch.index, _KEPT)
        if not path.exists():
            text = f"{state.batch.kept} groups that batch {state.batch.index} left over are lost: {path} is missing"
            self._tell(Warned(text=text))
            return
        self._carried, _ = read_groups(path, self._parts.feed.scenarios)
        self._carried_epoch, self._carried_from = state.batch.epoch, state.batch.index

    async def fill(self, index: int, reader: Reader, *, step: Callable[[], int]) -> FilledBatch | None:
        """Fill the next batch and record it; None where the data is at its end.

        Args:
            index: Its number.
            reader: Reads the data.
            step: Says the step of the run; groups are stamped with what they were sampled from.

        Raises:
            AllRolloutsFailedError: Every rollout failed, or more of the step's than `max_exceptions`.
            OutageError: A service is gone.
            RewardError: The reward broke its contract, or was told to raise.

        What was played by then is in a recording called "failed", or "interrupted" where this is cancelled.
        """
        size = self._parts.settings.groups_per_step
        batch = FilledBatch(
            index=index,
            size=size,
            carried=self._carried,
            carried_from=self._carried_from,
            epoch=self._carried_epoch,
            cursor=reader.cursor,
        )
        # A batch never crosses an epoch: what the last one left over of an epoch that is over is trained on by itself.
        batch.ends_epoch = bool(batch.carried) and reader.cursor.epoch > batch.epoch
        wanted = 0 if batch.ends_epoch else size - len(batch.carried)
        budget = self._parts.settings.max_extra_groups
        timeout_s = self._parts.settings.step_timeout_s
        left_s = math.inf if timeout_s is None else timeout_s
        try:
            while wanted > 0 and (drawn := await reader.take(wanted)) is not None:
                began_s = time.monotonic()  # what the data takes to come is no time of the rollouts
                with self.steps.playing(step) as stamp:
                    gathered = await self._gather(batch, drawn.items, left_s)
                stamp(gathered.groups)
                batch.take(drawn, reader.cursor, gathered)
                batch.sort(self._filter(gathered.groups))
                left_s -= time.monotonic() - began_s
                wanted = batch.wanted(budget) if left_s > 0 else 0
                budget -= wanted
        except BaseException as error:
            self._record("failed" if isinstance(error, Exception) else "interrupted", batch, error)
            raise
        if not batch.sampled.groups and not batch.carried:
            return None
        write_groups(self._rows.recording(index), batch.groups, batch.sampled.lost)
        if batch.kept:
            write_groups(self._rows.recording(index, _KEPT), batch.kept)
        if not batch.is_unscored:  # of which nothing is trained on, and the next is given the same
            self._carried, self._carried_epoch, self._carried_from = batch.kept, batch.epoch, batch.index
        return batch

    def forget_carried(self, batch: FilledBatch) -> None:
        """Delete the recording of what `batch` was given: it is trained on."""
        if batch.carried:
            self._rows.recording(batch.carried_from, _KEPT).unlink(missing_ok=True)

    def _filter(self, groups: Sequence[art.TrajectoryGroup]) -> FilterResult:
        filters = self._parts.filters
        return FilterResult(kept=list(groups), dropped=[]) if filters is None else filters.apply(groups)

    async def _gather(self, batch: FilledBatch, scenarios: Sequence[Scenario], timeout_s: float) -> GatheredGroups:
        parts, settings = self._parts, self._parts.settings
        is_refill = bool(batch.sampled.groups)
        try:
            with self._rows.costs("train"):
                gathered = await gather_groups(
                    parts.rollout,
                    parts.model,
                    scenarios,
                    rollouts_per_group=settings.rollouts_per_group,
                    reward=parts.reward,
                    max_exceptions=None if is_refill else settings.max_exceptions,
                    max_concurrent=settings.max_concurrent,
                    timeout_s=None if timeout_s == math.inf else timeout_s,
                    on_event=lambda event: self._tell.member("train", event),
                    on_notice=self._tell.notice,
                )
        except AllRolloutsFailedError as error:
            # A refill may be a single scenario: that all of it failed says little of the others.
            if not is_refill or error.gathered is None:
                raise
            gathered = cast("GatheredGroups", error.gathered)
        if is_refill:
            self._check_exceptions(batch, gathered)
        return gathered

    def _check_exceptions(self, batch: FilledBatch, gathered: GatheredGroups) -> None:
        """Hold the whole step against `max_exceptions`; a first gather does so by itself."""
        limit, counts = self._parts.settings.max_exceptions, batch.sampled.counts + gathered.counts
        if limit is None:
            return
        allowed = allowed_failures(limit, counts.started - counts.refilled)
        failed = sum(counts.failed.values()) + sum(counts.lost.values()) - counts.lost.get(FailureKind.REWARD, 0)
        if failed > allowed:
            error = AllRolloutsFailedError(
                f"{failed} of the {counts.started} rollouts of a step failed, more than max_exceptions={limit!r} "
                f"allows: {causes_of(batch.sampled + gathered)}",
                'mend the cause; the recording called "failed" has every traceback',
            )
            error.gathered = gathered
            raise error

    def _record(self, name: str, batch: FilledBatch, error: BaseException) -> None:
        """Keep what was played for a batch that comes to nothing: it was paid for, and may hold the cause."""
        gathered = getattr(error, "gathered", None)
        played = batch.sampled + gathered if isinstance(gathered, GatheredGroups) else batch.sampled
        if played.counts.started:
            with contextlib.suppress(OSError):
                write_groups(self._rows.recording(batch.index, name), played.groups, played.lost)
