"""The trainer: every block in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from artkit.backends import closing_backend
from artkit.bridge import backend_of, guard_keys, hide_secrets, open_model, renamed_model, storage_dir_on, wandb_run
from artkit.errors import ConfigurationError
from artkit.rewards import DropZeroVariance
from artkit.secrets import scrub
from artkit.tracking import ConsoleTracker, JsonlTracker, RunFinished, Warned
from artkit.training.broadcast import Broadcast
from artkit.training.completing import as_conditions, as_policy, as_trackers, as_validations
from artkit.training.environment_check import check_environments
from artkit.training.explaining import disk_errors_explained, interruption_told
from artkit.training.feed import Feed
from artkit.training.parts import OWN_DIR, Parts, Resume
from artkit.training.plan import Plan
from artkit.training.preflight import check, check_validations
from artkit.training.rows import RowWriter
from artkit.training.run import Run
from artkit.training.run_lock import hold_run
from artkit.training.settings import TrainerSettings
from artkit.training.signals import StopRequest, run_signals
from artkit.training.summary import summarize
from artkit.training.type_checks import check_type
from artkit.training.validating import validate
from artkit.training.validation import Validation
from artkit.validation import AtEnd

if TYPE_CHECKING:
    import art

    from artkit.checkpoints import CheckpointPolicy
    from artkit.rewards import GroupFilter
    from artkit.rollouts import AnyRollout, GroupReward
    from artkit.tracking import Tracker
    from artkit.training.report import RunReport
    from artkit.training.stopping import StopCondition, StopFunction
    from artkit.training.validation_result import ValidationResult

__all__ = ["Trainer"]


class Trainer:
    """Trains a model: gather, score, filter, train, log, validate, prune, resumable at any moment.

    Args:
        model: What is trained; registered by `run` if it is not.
        backend: Any backend that follows ART's protocol; closed at the end of `run`, however it ends.
        rollout: A `Rollout`, the result of `capture_partial`, or `async (model, scenario) -> art.Trajectory`.
        train: The training scenarios: a sequence, a `ScenarioOrder`, or an open-ended source (any iterator or async
            iterator), which needs `max_steps` and resumes only if it has `seek(n)`.
        reward: Scores each group: a `RewardAdapter`, or any callable that fits ART's `after_each`.
        validation: One or several; None validates nothing.
        checkpoint_policy: Which checkpoints to keep. None is `KeepBest() | KeepLatest()` where validation has an
            absolute reward, `KeepLatest(count=5)` where it is relative, `KeepAll()` without validation.
        filters: Which groups are not trained on; None trains on all.
        stop_when: When to stop before the data ends: conditions joined by `|`, or a function of (progress, metrics)
            that returns a reason or None. A run also stops when a loss is NaN or infinite, and when its reward
            collapses (`stop_on_collapse`).
        trackers: Who is told what happens; None is a `ConsoleTracker()`.
        resume: "auto" goes on where the journal ends, if there is one; "never" begins anew on the present weights;
            "require" refuses to begin anew.
        settings: The numbers.

    Raises:
        ConfigurationError: A part that cannot work.
    """

    def __init__(
        self,
        *,
        model: art.TrainableModel[Any, Any],
        backend: Any,
        rollout: AnyRollout,
        train: object,
        reward: GroupReward,
        validation: Validation | Sequence[Validation] | None = None,
        checkpoint_policy: CheckpointPolicy | None = None,
        filters: GroupFilter | None = DropZeroVariance(),  # noqa: B008  # frozen
        stop_when: StopCondition | StopFunction | None = None,
        trackers: Sequence[Tracker] | None = None,
        resume: Resume = "auto",
        settings: TrainerSettings = TrainerSettings(),  # noqa: B008  # frozen
    ) -> None:
        required = {"backend": backend, "rollout": rollout, "reward": reward, "settings": settings}
        optional = {"checkpoint_policy": checkpoint_policy, "filters": filters}
        for name, part in (required | {name: part for name, part in optional.items() if part is not None}).items():
            check_type(name, part)
        if resume not in get_args(Resume):
            raise ConfigurationError(f"resume={resume!r} is no choice", f"give one of {', '.join(get_args(Resume))}")
        feed = Feed.of(train, settings)
        validations = as_validations(validation)
        policy, reason = as_policy(checkpoint_policy, validations, reward)
        self._parts = Parts(
            model=model,
            backend=backend,
            rollout=rollout,
            feed=feed,
            reward=reward,
            validations=validations,
            checkpoint_policy=policy,
            policy_reason=reason,
            filters=filters,
            stop_when=as_conditions(stop_when, feed, reward),
            trackers=as_trackers(trackers),
            resume=resume,
            settings=settings,
        )
        guard_keys(model, backend)
        self._has_closed = False
        self._busy_with: str | None = None

    def plan(self) -> Plan:
        """Return what will run; nothing is started."""
        return Plan.of(self._parts)

    async def run(self) -> RunReport:
        """Check, register, resume or begin, train to the end, close the backend, and return the report.

        SIGTERM ends it after the step under way, and Ctrl-C at once, with everything closed. Then the handlers of both
        are what they were before; where the program has its own, those are left alone.

        Raises:
            ConfigurationError: Something cannot work; found before anything was spent.
            EnvironmentContractError: An environment does not replay; found before anything was spent.
            ResumeError: The run on disk is not this run; says what changed and the choices.
            AllRolloutsFailedError: Every rollout of a step failed; names the first cause.
            OutageError: A service is gone, or too many episodes failed.
        """
        with self._alone("run"), run_signals() as stop:
            return await self._run(self._parts, stop)

    async def smoke(self) -> RunReport:
        """Do one tiny step through the same code, under a throw-away model name and journal, and return its report.

        Raises what `run` raises. Everything of the throw-away model that is below `base_path` is deleted.
        """
        parts = self._parts
        parts.feed.check_repeatable()
        throw_away = renamed_model(parts.model, f"{parts.model.name}-smoke-{secrets.token_hex(4)}")
        throw_away.report_metrics = []
        rollouts = min(2, parts.settings.rollouts_per_group)
        settings = parts.settings.model_copy(
            update={"groups_per_step": 1, "rollouts_per_group": rollouts, "max_steps": 1, "max_extra_groups": 0}
        )
        tiny = dataclasses.replace(
            parts,
            model=throw_away,
            feed=dataclasses.replace(parts.feed, settings=settings),
            validations=tuple(
                dataclasses.replace(validation, max_scenarios=1, schedule=AtEnd()) for validation in parts.validations
            ),
            # Two rollouts often score alike; whether the backend can train on them is what is tried here.
            filters=None,
            stop_when=None,
            # What the run is tracked by must not hold a run that never was.
            trackers=tuple(tracker for tracker in parts.trackers if isinstance(tracker, ConsoleTracker)),
            resume="auto",
            settings=settings,
        )
        with self._alone("smoke"), run_signals() as stop:
            try:
                return await self._run(tiny, stop)
            finally:
                shutil.rmtree(storage_dir_on(parts.backend, throw_away), ignore_errors=True)

    async def evaluate(
        self, *, model: art.Model[Any, Any] | None = None, sets: Validation | Sequence[Validation | str] | None = None
    ) -> dict[str, ValidationResult]:
        """Run validations once, train nothing, log nothing, and return the results by the name of the set.

        Opens the backend if the model is a trainable one that is not registered, or if this trainer has closed it, and
        closes it then.

        Args:
            model: Any `art.Model` with an inference endpoint, such as the one to beat. None is the trainer's own.
            sets: Validations, or names of the trainer's own. None is all of the trainer's own.

        Raises:
            ConfigurationError: A run of this trainer is under way, or something cannot work.
        """
        # Nothing is trained here: what only a trainable model can do is asked of none but those.
        asked = cast("art.TrainableModel[Any, Any]", model or self._parts.model)
        parts = dataclasses.replace(self._parts, validations=self._sets(sets), model=asked)
        with self._alone("evaluate"):
            is_closed = self._has_closed and backend_of(parts.model) is parts.backend
            must_open = parts.model.trainable and (is_closed or backend_of(parts.model) is None)
            async with self._closing(Broadcast(parts.trackers)) if must_open else contextlib.nullcontext():
                if must_open:
                    check(parts)
                    await open_model(parts.model, parts.backend)
                else:
                    check_validations(parts)
                with RowWriter(parts).costs("eval"):
                    return {
                        validation.name: await validate(
                            validation, parts.model, rollout=parts.rollout, reward=parts.reward, settings=parts.settings
                        )
                        for validation in parts.validations
                    }

    def _sets(self, sets: Validation | Sequence[Validation | str] | None) -> tuple[Validation, ...]:
        own = {validation.name: validation for validation in self._parts.validations}
        if sets is None:
            if not own:
                raise ConfigurationError("the trainer has no validation to evaluate", "give sets=Validation(scenarios)")
            return tuple(own.values())
        wanted = [sets] if isinstance(sets, Validation | str) else sets
        if not wanted:
            raise ConfigurationError(f"sets={sets!r} names no validation", "give one, or None for all of the trainer's")
        for name in wanted:
            if isinstance(name, str) and name not in own:
                raise ConfigurationError(f"sets={name!r} is no validation of the trainer", f"it has {', '.join(own)}")
        return as_validations([own[each] if isinstance(each, str) else each for each in wanted])

    async def _run(self, parts: Parts, stop: StopRequest) -> RunReport:
        tell = Broadcast(parts.trackers)
        async with self._closing(tell):
            check(parts)
            warnings = await check_environments(parts)
            # The lock comes first, at the place that registering will give the model: a backend on this machine keeps
            # its files below a path of its own, and opening it may start a server on the GPU that is in use.
            with hold_run(storage_dir_on(parts.backend, parts.model) / OWN_DIR), disk_errors_explained(parts):
                # Always, although the model may be registered already: a backend that was closed is opened again by it.
                await open_model(parts.model, parts.backend)
                tell.add(JsonlTracker(parts.own_dir / "events.jsonl"))
                async with wandb_run(parts.model, tell=lambda text: tell(Warned(text=text))):
                    run = Run(parts, tell, stop, warnings)
                    with interruption_told(parts, tell):
                        reason = await run()
                    report = await summarize(parts, run, scrub(reason))
            tell(RunFinished(report_text=str(report)))
        return report

    @contextlib.asynccontextmanager
    async def _closing(self, tell: Broadcast) -> AsyncIterator[None]:
        try:
            async with closing_backend(self._parts.backend, warn=lambda text: tell(Warned(text=text))):
                yield
        finally:
            self._has_closed = True
            tell.close()

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse what is called while another call of this trainer is under way: each may close the backend.

        What is raised inside has no secret in its text when it leaves.
        """
        if self._busy_with is not None:
            raise ConfigurationError(
                f"{what}() was called while {self._busy_with}() of the same trainer is under way",
                f"await {self._busy_with}() first: both use the same backend, and the first to end may close it",
            )
        self._busy_with = what
        try:
            yield
        except BaseException as error:
            hide_secrets(error)
            raise
        finally:
            self._busy_with = None
