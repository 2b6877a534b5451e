"""One session of a run: from where the journal ends to the end, or to the next death."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from artkit.episodes import write_groups
from artkit.errors import BackendError, CheckpointError
from artkit.rollouts import gather_groups
from artkit.tracking import CheckpointsPruned, RunStarted, StepFinished, ValidationFinished, Warned
from artkit.training.broadcast import Broadcast
from artkit.training.failure_window import FailureWindow
from artkit.training.journal import Emptied, Ended, Intended, Journal, Logged, Trained, Validated
from artkit.training.plan import Plan
from artkit.training.pruning import prune_checkpoints
from artkit.training.recovery import recover
from artkit.training.row import batch_counts
from artkit.training.rows import RowWriter
from artkit.training.validating import validate
from artkit.validation import Progress

if TYPE_CHECKING:
    from artkit.rollouts import GatheredGroups
    from artkit.scenarios import ScenarioBatch
    from artkit.training.journal import Entry
    from artkit.training.parts import Parts
    from artkit.training.run_state import RunState
    from artkit.training.validation import Validation

__all__ = ["Run"]


class Run:
    """One session of a run.

    The order inside a step is fixed: gather and score, filter, record, journal the intent, train, journal the result,
    log the row, validate, prune. What a death leaves undone of it, `recover` does when the next session begins.

    Args:
        parts: What the run is made of.

    Attributes:
        state: Where the run stands; None before it was opened.
        counts: What became of the rollouts and groups of this session.
    """

    state: RunState

    def __init__(self, parts: Parts) -> None:
        self.counts: Counter[str] = Counter()
        self._parts = parts
        self._tell = Broadcast(parts.trackers)
        self._failures = FailureWindow(parts.settings.max_failure_rate)
        self._journal = Journal(parts.own_dir / "journal.jsonl")
        self._rows = RowWriter(parts)
        self._cannot_prune = False
        self._started_s = time.monotonic()
        self._elapsed_before_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds the run has taken, earlier sessions included."""
        return self._elapsed_before_s + time.monotonic() - self._started_s

    async def __call__(self) -> str:
        """Run to the end and return the reason it ended. The model must be registered."""
        parts = self._parts
        plan = Plan.of(parts)
        recovered = await recover(parts, self._journal, self._rows)
        self.state = recovered.state
        self._elapsed_before_s = self.state.elapsed_s
        self._tell(RunStarted(plan_text=str(plan), total_steps=plan.total_steps, start_step=self.state.trained))
        for text in (*plan.warnings, *recovered.notes):
            self._tell(Warned(text=text))
        began_at = self.state.cursor
        if self.state.batch is None:
            await self._validate(self._progress(is_start=True))
        else:
            # What a death between training and the next batch left undone.
            await self._after_step(self._progress(), row={}, recovered=True)
        reason = await self._train(plan)
        if self.state.trained:
            await self._after_step(self._progress(is_last=True), row={})
        if self.state.cursor == began_at and self.state.trained:
            reason = f"nothing to do: {reason}"
        self._note(Ended(reason=reason))
        return reason

    async def _train(self, plan: Plan) -> str:
        settings = self._parts.settings
        async with contextlib.aclosing(self._parts.feed.batches(self.state.cursor)) as batches:
            while True:
                if settings.max_steps is not None and self.state.trained >= settings.max_steps:
                    return f"finished: max_steps={settings.max_steps} were trained"
                batch = await anext(batches, None)
                if batch is None:
                    return "finished: all batches were trained"
                if reason := await self._batch(batch, plan):
                    return reason

    async def _batch(self, batch: ScenarioBatch[Any], plan: Plan) -> str | None:
        """Do one batch; return a reason to stop, or None."""
        parts, settings = self._parts, self._parts.settings
        began_s = time.monotonic()
        gathered = await self._gather(batch)
        filtered = parts.filters.apply(gathered.groups) if parts.filters else None
        kept = filtered.kept if filtered else gathered.groups
        trainable = [group for group in kept if group.trajectories]
        counts = functools.partial(
            batch_counts,
            gathered.counts,
            submitted=len(gathered.groups),
            trainable=len(trainable),
            dropped=filtered.dropped if filtered else (),
        )
        self.counts.update(counts(carried={}))
        place = {
            "index": batch.index, "epoch": batch.epoch, "is_epoch_end": batch.is_epoch_end, "cursor": batch.cursor,
        }  # fmt: skip
        write_groups(self._rows.recording(batch.index), gathered.groups, gathered.lost)
        self._failures.note(gathered)
        if not trainable:
            self._note(Emptied(**place, metrics=counts(carried={}), elapsed_s=self.elapsed_s))
            self._tell(Warned(text=f"batch {batch.index} holds nothing to learn from: {_why(filtered)}"))
            if self.state.empty_in_a_row >= settings.max_empty_steps:
                return f"stopped: {self.state.empty_in_a_row} batches in a row held nothing to learn from"
            if batch.is_epoch_end and self.state.trained:
                await self._validate(self._progress())
            return None
        self._note(
            Intended(
                **place, step=self.state.step, metrics=counts(carried=self.state.carried), elapsed_s=self.elapsed_s
            )
        )
        result = await parts.backend.train(
            parts.model, trainable, learning_rate=settings.learning_rate, **settings.train_options
        )
        if result.step < self.state.step:
            raise BackendError(
                f"train() of {type(parts.backend).__name__} went from step {self.state.step} to {result.step}",
                "see its log; the episodes of this batch are in the recording",
            )
        trained = Trained(
            index=batch.index, step=result.step, metrics=self._rows.clean(result.metrics), elapsed_s=self.elapsed_s
        )
        self._note(trained)
        row = await self._rows.write_train(self.state, trained, gathered.groups)
        self._note(Logged(index=batch.index, step=result.step, elapsed_s=self.elapsed_s))
        seconds = time.monotonic() - began_s
        self._tell(
            StepFinished(
                step=result.step,
                epoch=batch.epoch,
                index=batch.index,
                total_steps=plan.total_steps,
                metrics=row,
                tokens_per_s=_tokens(gathered) / seconds if seconds else None,
                seconds=seconds,
            )
        )
        return await self._after_step(self._progress(), row=row)

    async def _gather(self, batch: ScenarioBatch[Any]) -> GatheredGroups:
        parts, settings = self._parts, self._parts.settings
        with self._rows.costs("train"):
            return await gather_groups(
                parts.rollout,
                parts.model,
                batch.items,
                rollouts_per_group=settings.rollouts_per_group,
                reward=parts.reward,
                max_exceptions=settings.max_exceptions,
                max_concurrent=settings.max_concurrent,
                on_event=functools.partial(self._tell.member, "train"),
            )

    async def _after_step(self, progress: Progress, *, row: dict[str, Any], recovered: bool = False) -> str | None:
        """Validate, prune, and ask whether to stop; a second call for the same step finds nothing left to do."""
        metrics = row | await self._validate(progress, recovered=recovered)
        await self._prune()
        if self._parts.stop_when is not None and metrics:
            reason = self._parts.stop_when(progress, metrics)
            return f"stopped: {reason}" if reason else None
        return None

    async def _validate(self, progress: Progress, *, recovered: bool = False) -> dict[str, Any]:
        """Run what is due and was not yet done at this step; return the rows that were logged, joined."""
        logged: dict[str, Any] = {}
        for number, validation in enumerate(self._parts.validations):
            is_done = (validation.name, self.state.step) in self.state.validated
            if is_done or not validation.schedule.due(progress):
                continue
            logged |= await self._validate_one(validation, is_first=number == 0, recovered=recovered)
        return logged

    async def _validate_one(self, validation: Validation, *, is_first: bool, recovered: bool) -> dict[str, Any]:
        parts, step = self._parts, self.state.step
        with self._rows.costs("eval"):
            result = await validate(
                validation,
                parts.model,
                rollout=parts.rollout,
                reward=parts.reward,
                settings=parts.settings,
                on_event=functools.partial(self._tell.member, validation.name),
            )
        write_groups(self._rows.recording(step, validation.name), result.groups, result.lost)
        row = await self._rows.write_validation(result, step=step, is_first=is_first, recovered=recovered)
        self._note(Validated(name=validation.name, step=step, elapsed_s=self.elapsed_s))
        self._tell(ValidationFinished(name=validation.name, step=step, metrics=row, seconds=result.seconds))
        if not result.ranks:
            self._tell(
                Warned(
                    text=f"validation {validation.name!r} at step {step} could score only "
                    f"{result.scored_share:.0%} of its episodes, so it ranks no checkpoint: {result.counts}"
                )
            )
        return row

    async def _prune(self) -> None:
        parts = self._parts
        if self._cannot_prune:
            return
        try:
            pruned = await prune_checkpoints(
                parts.model, parts.checkpoint_policy, in_use=parts.in_use | {self.state.step}
            )
        except CheckpointError as error:
            self._cannot_prune = True
            self._tell(Warned(text=f"checkpoints are not pruned: {error}"))
            return
        deleted = tuple(sorted(step for step in pruned.why if step not in pruned.keep))
        if deleted:
            kept = {step: pruned.why[step] for step in sorted(pruned.keep)}
            self._tell(CheckpointsPruned(step=self.state.step, kept=kept, deleted=deleted))

    def _progress(self, *, is_start: bool = False, is_last: bool = False) -> Progress:
        batch = self.state.batch
        return Progress(
            step=self.state.step,
            epoch=batch.epoch if batch else 0,
            is_epoch_end=bool(batch and batch.is_epoch_end),
            is_last=is_last,
            elapsed_s=self.elapsed_s,
            is_start=is_start,
        )

    def _note(self, entry: Entry) -> None:
        """Put an entry into the journal, and the state after it."""
        self._journal.append(entry)
        self.state = self.state.after(entry)


def _tokens(gathered: GatheredGroups) -> float:
    return sum(
        float(episode.metrics.get("completion_tokens", 0))
        for group in gathered.groups
        for episode in group.trajectories
    )


def _why(filtered: Any) -> str:
    reasons = Counter(reason for _, reason in filtered.dropped) if filtered else Counter()
    return "; ".join(f"{count} groups: {reason}" for reason, count in reasons.items()) or "no episode is left"
