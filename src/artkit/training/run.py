"""One session of a run: from where the journal ends to the end, or to the next death."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from artkit.bridge import without_secrets
from artkit.checkpoints import MetricHistory
from artkit.errors import BackendError, RewardError
from artkit.rewards import WeightedReward
from artkit.tracking import RunStarted, StepFinished, Warned
from artkit.training.ahead import Ahead
from artkit.training.failure_window import FailureWindow, causes_of
from artkit.training.filling import Filler
from artkit.training.journal import Emptied, Ended, Intended, Logged, Trained
from artkit.training.plan import Plan
from artkit.training.policy_steps import policy_ages
from artkit.training.pruner import Pruner
from artkit.training.recovery import recover
from artkit.training.reward_watch import RewardWatch
from artkit.training.row import add_counts, batch_counts
from artkit.training.rows import RowWriter
from artkit.training.stopping import not_finite
from artkit.training.tokens import completion_tokens
from artkit.training.validator import Validator

if TYPE_CHECKING:
    import art

    from artkit.rollouts import GatheredGroups
    from artkit.training.broadcast import Broadcast
    from artkit.training.filling import FilledBatch
    from artkit.training.ledger import Ledger
    from artkit.training.parts import Parts
    from artkit.training.signals import StopRequest
    from artkit.training.stopping import StopCondition

__all__ = ["Run"]


class Run:
    """One session of a run.

    The order inside a step is fixed: gather and score, filter, record, journal the intent, train, journal the result,
    log the row, validate, prune. What a death leaves undone of it, `recover` does when the next session begins.

    Args:
        parts: What the run is made of.
        tell: Who is told.
        stop: Asks to end after the step under way.
        warnings: What the checks before the run found.

    Attributes:
        ledger: Where the run stands; there once the session has begun.
        counts: What became of the rollouts and groups of this session.
        rows: Writes the rows, and knows where the recordings are.
    """

    ledger: Ledger
    _validate: Validator  # there once the session has begun, as the ledger is

    def __init__(self, parts: Parts, tell: Broadcast, stop: StopRequest, warnings: Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._parts = parts
        self._plan = Plan.of(parts)
        self._stop = stop
        self._warnings = (*self._plan.warnings, *warnings)
        self._tell = tell
        self._failures = FailureWindow(parts.settings.max_failure_rate, parts.settings.max_recent_failures)
        self.rows = RowWriter(parts)
        self._filler = Filler(parts, self.rows, tell)
        self._prune = Pruner(parts, tell, self._filler.steps.in_use)
        weights = parts.reward.weights if isinstance(parts.reward, WeightedReward) else {}
        self._watch = RewardWatch(weights)
        self._history = MetricHistory()
        self._has_named_unlogged = False
        self._unscored: list[dict[str, float]] = []

    async def __call__(self) -> str:
        """Run to the end and return the reason it ended. The model must be registered."""
        recovered = await recover(self._parts, self.rows)
        self.ledger = ledger = recovered.ledger
        self._validate = Validator(self._parts, ledger, self.rows, self._tell)
        self._tell(
            RunStarted(
                plan_text=str(self._plan),
                total_steps=self._plan.total_steps,
                start_step=ledger.state.trained - sum(isinstance(event, StepFinished) for event in recovered.untold),
            )
        )
        for event in recovered.untold:
            self._tell(event)
        for text in (*self._warnings, *recovered.notes):
            self._warn(text)

        self._filler.restore(ledger.state)
        began_after = ledger.state.batch
        if ledger.state.batch is None:
            await self._validate(ledger.progress(is_start=True), recovered=recovered.has_died)
        reason = await self._catch_up(has_died=recovered.has_died) or await self._train()
        has_stood = ledger.state.batch is began_after
        # Whoever asks to stop has no time for what comes at the end, and starts again.
        if ledger.state.trained and self._stop.reason is None:
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
        if self.ledger.state.trained:
            await self._validate(self.ledger.progress(), recovered=has_died)
            await self._prune(self.ledger.state)
        return self._reason_to_stop() if self.ledger.state.batch else None

    async def _train(self) -> str:
        settings = self._parts.settings
        begun = self.ledger.state
        async with (
            self._parts.feed.reader(begun.cursor) as reader,
            Ahead(
                self._filler,
                reader,
                first=begun.next_index,
                lead=settings.lead,
                step=lambda: self.ledger.state.step,
                is_stopping=lambda: self._stop.reason is not None,
                warn=self._warn,
                most=None if settings.max_steps is None else settings.max_steps - begun.trained,
            ) as ahead,
        ):
            while self._stop.reason is None:
                state = self.ledger.state
                if state.empty_in_a_row >= settings.max_empty_steps:
                    return f"stopped: {state.empty_in_a_row} batches in a row held nothing to learn from"
                if settings.max_steps is not None and state.trained >= settings.max_steps:
                    return f"finished: max_steps={settings.max_steps} were trained"
                began_s = time.monotonic()
                batch = await ahead.next()
                if batch is None:
                    return self._stop.reason or self._finished()
                reason = await self._batch(batch, began_s)
                del batch  # or its episodes would stay in memory while the next ones are played
                if reason is not None:
                    return reason
        return self._stop.reason

    def _finished(self) -> str:
        if self._unscored:
            return f"finished, but for the {_last(len(self._unscored))}, which could not be scored; start again"
        return "finished: all batches were trained" if self.ledger.state.trained else "finished: nothing was trained"

    async def _batch(self, batch: FilledBatch, began_s: float) -> str | None:
        """Train on one batch; return a reason to stop, or None."""
        ledger, gathered, trainable = self.ledger, batch.sampled, batch.trainable
        counts = batch_counts(batch)
        self.counts.update(counts)
        self._failures.note(gathered)
        if gathered.counts.failures:
            self._warn(f"batch {batch.index}: {gathered.counts}: {causes_of(gathered)}")
        for text in self._watch.note(gathered.groups):
            self._warn(text)
        if batch.is_unscored:
            self._note_unscored(counts)
            return None
        # What was unscored before it is passed over for good now, and counted with it.
        counts = functools.reduce(add_counts, self._unscored, counts)
        self._unscored.clear()
        kind, metrics = (Intended, add_counts(counts, ledger.state.carried)) if trainable else (Emptied, counts)
        ledger.note(
            kind(
                index=batch.index,
                epoch=batch.epoch,
                is_epoch_end=batch.is_epoch_end,
                cursor=batch.cursor,
                metrics=metrics,
                kept=len(batch.kept),
            )
        )
        if not trainable:
            why = "; ".join(f"{count} groups: {reason}" for reason, count in batch.reasons.items())
            self._tell(Warned(text=f"batch {batch.index} holds nothing to learn from: {why}"))
            if ledger.state.trained:
                await self._validate(ledger.progress())
            return self._reason_to_stop()
        ages = policy_ages(trainable, ledger.state.step, most=self._parts.settings.max_policy_age, warn=self._warn)
        trained = await self._train_on(trainable, batch.index)
        trained = dataclasses.replace(trained, metrics={**trained.metrics, **ages})
        if (held_up := gathered.held_up) is not None:
            trained = dataclasses.replace(trained, metrics={**trained.metrics, "loop_blocked_max_s": held_up.seconds})
        ledger.note(trained)
        self._filler.forget_carried(batch)
        row = await self.rows.write_train(ledger.state, trained, batch.groups)
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
        # Only now: whoever is told twice after a death can see it, and whoever is never told cannot.
        ledger.note(Logged(index=batch.index, step=trained.step))
        await self._validate(ledger.progress())
        await self._prune(ledger.state)
        return self._reason_to_stop()

    def _note_unscored(self, counts: dict[str, float]) -> None:
        """Count a batch in which no episode could be scored, and stop the run when that goes on.

        Such a batch is no empty one: what it would have taught is not known. So it is not in the journal, and a run
        that stops here begins again with the first of them.
        """
        self._unscored.append(counts)
        if len(self._unscored) >= self._parts.settings.max_empty_steps:
            raise RewardError(
                f"no episode of the {_last(len(self._unscored))} could be scored; the last cause: "
                f"{self._failures.cause}",
                "mend the reward and start again: the run goes on with the first of what could not be scored",
            )

    async def _train_on(self, groups: list[art.TrajectoryGroup], index: int) -> Trained:
        backend, settings, before = self._parts.backend, self._parts.settings, self.ledger.state.step
        result = await backend.train(
            self._parts.model,
            without_secrets(groups),  # which a serverless backend uploads
            learning_rate=settings.learning_rate,
            **settings.train_options,
        )
        went = f"train() of {type(backend).__name__} went from step {before} to {result.step}"
        if result.step < before:
            raise BackendError(went, "see its log; the episodes of this batch are in the recording")
        if result.step > before + 1:
            self._warn(
                f"{went}: a training that a session began before it was killed may have finished late, and its batch "
                "was trained on twice"
            )
        return Trained(
            index=index,
            step=result.step,
            metrics=self.rows.clean(result.metrics),
            not_finite=not_finite(result.metrics),
        )

    def _warn(self, text: str) -> None:
        self._tell(Warned(text=text))

    def _reason_to_stop(self) -> str | None:
        state, stop_when = self.ledger.state, self._parts.stop_when
        if state.not_finite:
            return (
                f"stopped: {state.not_finite} in step {state.step}, so its weights cannot be trusted: go on from an "
                "earlier checkpoint, with a lower learning rate"
            )
        if stop_when is None:
            return None
        self._history.read_on(self._parts.history_path, since_byte=state.history_bytes)
        self._name_unlogged(stop_when)
        progress = dataclasses.replace(self.ledger.progress(), elapsed_s=self.ledger.elapsed_s)
        reason = stop_when.reason(progress, self._history)
        return f"stopped: {reason}" if reason else None

    def _name_unlogged(self, stop_when: StopCondition) -> None:
        """Say once that a metric which a condition reads was not logged although the step was validated."""
        missing = [name for name in sorted(stop_when.reads) if name.startswith("val/") and name not in self._history]
        if missing and self.ledger.state.validated and not self._has_named_unlogged:
            self._has_named_unlogged = True
            logged = ", ".join(sorted(name for name in self._history.metrics() if name.startswith("val/")))
            self._warn(f"{stop_when!r} reads {', '.join(missing)}, which was not logged; validation logged {logged}")


def _last(count: int) -> str:
    return "last batch" if count == 1 else f"last {count} batches"


def _tokens(gathered: GatheredGroups) -> int:
    grouped = (episode for group in gathered.groups for episode in group.trajectories)
    return sum(map(completion_tokens, (*grouped, *gathered.lost)))
