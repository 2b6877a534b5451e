"""One session of a run: from where the journal ends to the end, or to the next death."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from artkit.episodes import write_groups
from artkit.errors import AllRolloutsFailedError, BackendError, OutageError, RewardError
from artkit.rollouts import gather_groups
from artkit.tracking import RunStarted, StepFinished, Warned
from artkit.training.failure_window import FailureWindow
from artkit.training.journal import Emptied, Ended, Intended, Logged, Trained
from artkit.training.plan import Plan
from artkit.training.pruner import Pruner
from artkit.training.recovery import recover
from artkit.training.row import add_counts, batch_counts
from artkit.training.rows import RowWriter
from artkit.training.tokens import completion_tokens
from artkit.training.validator import Validator

if TYPE_CHECKING:
    import art

    from artkit.rewards import FilterResult
    from artkit.rollouts import GatheredGroups
    from artkit.scenarios import ScenarioBatch
    from artkit.training.broadcast import Broadcast
    from artkit.training.ledger import Ledger
    from artkit.training.parts import Parts

__all__ = ["Run"]


class Run:
    """One session of a run.

    The order inside a step is fixed: gather and score, filter, record, journal the intent, train, journal the result,
    log the row, validate, prune. What a death leaves undone of it, `recover` does when the next session begins.

    Args:
        parts: What the run is made of.
        tell: Who is told.

    Attributes:
        ledger: Where the run stands; there once the session has begun.
        counts: What became of the rollouts and groups of this session.
        rows: Writes the rows, and knows where the recordings are.
    """

    ledger: Ledger

    def __init__(self, parts: Parts, tell: Broadcast) -> None:
        self.counts: Counter[str] = Counter()
        self._parts = parts
        self._plan = Plan.of(parts)
        self._tell = tell
        self._failures = FailureWindow(parts.settings.max_failure_rate)
        self.rows = RowWriter(parts)
        self._prune = Pruner(parts, tell)
        self._unscored: list[dict[str, float]] = []

    async def __call__(self) -> str:
        """Run to the end and return the reason it ended. The model must be registered."""
        recovered = await recover(self._parts, self.rows)
        self.ledger = ledger = recovered.ledger
        self._validate = Validator(self._parts, ledger, self.rows, self._tell)
        self._tell(
            RunStarted(plan_text=str(self._plan), total_steps=self._plan.total_steps, start_step=ledger.state.trained)
        )
        for text in (*self._plan.warnings, *recovered.notes):
            self._tell(Warned(text=text))

        began_at = ledger.state.cursor
        if ledger.state.batch is None:
            await self._validate(ledger.progress(is_start=True), recovered=recovered.has_died)
        reason = await self._catch_up(has_died=recovered.has_died) or await self._train()
        has_stood = ledger.state.cursor == began_at
        if ledger.state.trained:
            await self._validate(ledger.progress(is_last=True), recovered=recovered.has_died and has_stood)
            await self._prune(ledger.state)
            if has_stood:
                reason = f"nothing to do: {reason}"
        ledger.note(Ended(reason=reason))
        return reason

    async def _catch_up(self, *, has_died: bool) -> str | None:
        """Do what is still to do after the last trained step of an earlier session; return a reason to stop, or None.

        Most of it was done unless that session died. Whether to stop is asked again, of what was logged then: the
        answer may have died with it.
        """
        if not self.ledger.state.trained:
            return None
        await self._validate(self.ledger.progress(), recovered=has_died)
        await self._prune(self.ledger.state)
        return self._reason_to_stop(self.rows.logged(self.ledger.state))

    async def _train(self) -> str:
        settings = self._parts.settings
        async with contextlib.aclosing(self._parts.feed.batches(self.ledger.state.cursor)) as batches:
            while True:
                state = self.ledger.state
                if state.empty_in_a_row >= settings.max_empty_steps:
                    return f"stopped: {state.empty_in_a_row} batches in a row held nothing to learn from"
                if settings.max_steps is not None and state.trained >= settings.max_steps:
                    return f"finished: max_steps={settings.max_steps} were trained"
                batch = await anext(batches, None)
                if batch is None:
                    return self._finished()
                if reason := await self._batch(batch):
                    return reason

    def _finished(self) -> str:
        if self._unscored:
            return f"finished, but for the last {len(self._unscored)} batches, which could not be scored; start again"
        return "finished: all batches were trained" if self.ledger.state.trained else "finished: nothing was trained"

    async def _batch(self, batch: ScenarioBatch[Any]) -> str | None:
        """Do one batch; return a reason to stop, or None."""
        parts, ledger = self._parts, self.ledger
        began_s = time.monotonic()
        gathered = await self._gather(batch)
        filtered = parts.filters.apply(gathered.groups) if parts.filters else None
        trainable = [group for group in (filtered.kept if filtered else gathered.groups) if group.trajectories]
        counts = batch_counts(
            gathered.counts,
            submitted=len(gathered.groups),
            trainable=len(trainable),
            dropped=filtered.dropped if filtered else (),
        )
        self.counts.update(counts)
        write_groups(self.rows.recording(batch.index), gathered.groups, gathered.lost)
        self._failures.note(gathered)
        if gathered.counts.grouped < gathered.counts.started:
            text = f"batch {batch.index}: {gathered.counts}; the last cause: {self._failures.cause}"
            self._tell(Warned(text=text))
        if not gathered.counts.grouped:
            self._give_up_on_reward(counts)
            return None
        kind, metrics = (Intended, self._with_carried(counts)) if trainable else (Emptied, counts)
        ledger.note(
            kind(
                index=batch.index,
                epoch=batch.epoch,
                is_epoch_end=batch.is_epoch_end,
                cursor=batch.cursor,
                metrics=metrics,
            )
        )
        if not trainable:
            self._tell(Warned(text=f"batch {batch.index} holds nothing to learn from: {_why(filtered)}"))
            if ledger.state.trained:
                await self._validate(ledger.progress())
            return None
        trained = await self._train_on(trainable, batch)
        self._unscored.clear()
        ledger.note(trained)
        row = await self.rows.write_train(ledger.state, trained, gathered.groups)
        ledger.note(Logged(index=batch.index, step=trained.step))
        seconds = time.monotonic() - began_s
        tokens = _tokens(gathered)
        self._tell(
            StepFinished(
                step=trained.step,
                epoch=batch.epoch,
                index=batch.index,
                total_steps=self._plan.total_steps,
                metrics=row,
                tokens_per_s=tokens / seconds if tokens and seconds else None,
                seconds=seconds,
            )
        )
        row |= await self._validate(ledger.progress())
        await self._prune(ledger.state)
        return self._reason_to_stop(row)

    async def _gather(self, batch: ScenarioBatch[Any]) -> GatheredGroups:
        parts, settings = self._parts, self._parts.settings
        try:
            with self.rows.costs("train"):
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
        except (AllRolloutsFailedError, OutageError, RewardError) as error:
            if error.gathered is not None:  # paid for, and the place to look for what went wrong
                with contextlib.suppress(OSError):
                    write_groups(self.rows.recording(batch.index, "failed"), error.gathered.groups, error.gathered.lost)
            raise

    def _give_up_on_reward(self, counts: dict[str, float]) -> None:
        """Count a batch in which no episode could be scored, and stop the run when that goes on.

        Such a batch is no empty one: what it would have taught is not known. So it is not in the journal, and a run
        that stops here begins again with the first of them.
        """
        self._unscored.append(counts)
        if len(self._unscored) >= self._parts.settings.max_empty_steps:
            raise RewardError(
                f"no episode of the last {len(self._unscored)} batches could be scored; the last cause: "
                f"{self._failures.cause}",
                "mend the reward and start again: the run goes on with the first of these batches",
            )

    def _with_carried(self, counts: dict[str, float]) -> dict[str, float]:
        """Return the counts of a batch, with those of the batches before it that have no row of their own."""
        return functools.reduce(add_counts, self._unscored, add_counts(counts, self.ledger.state.carried))

    async def _train_on(self, groups: list[art.TrajectoryGroup], batch: ScenarioBatch[Any]) -> Trained:
        backend, settings, before = self._parts.backend, self._parts.settings, self.ledger.state.step
        result = await backend.train(
            self._parts.model, groups, learning_rate=settings.learning_rate, **settings.train_options
        )
        went = f"train() of {type(backend).__name__} went from step {before} to {result.step}"
        if result.step < before:
            raise BackendError(went, "see its log; the episodes of this batch are in the recording")
        if result.step > before + 1:
            self._tell(
                Warned(
                    text=f"{went}: a training that a session began before it was killed may have finished late, and "
                    "its batch was trained on twice"
                )
            )
        return Trained(index=batch.index, step=result.step, metrics=self.rows.clean(result.metrics))

    def _reason_to_stop(self, metrics: dict[str, Any]) -> str | None:
        stop_when = self._parts.stop_when
        reason = stop_when(self.ledger.progress(), metrics) if stop_when else None
        return f"stopped: {reason}" if reason else None


def _tokens(gathered: GatheredGroups) -> int:
    grouped = (episode for group in gathered.groups for episode in group.trajectories)
    return sum(map(completion_tokens, (*grouped, *gathered.lost)))


def _why(filtered: FilterResult | None) -> str:
    reasons = Counter(reason for _, reason in filtered.dropped) if filtered else Counter()
    return "; ".join(f"{count} groups: {reason}" for reason, count in reasons.items()) or "no episode is left"
