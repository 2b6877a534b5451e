"""What a run reports while it goes on: small facts, each frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "CheckpointsPruned",
    "LoopBlocked",
    "RolloutFinished",
    "RunFinished",
    "RunStarted",
    "StepFinished",
    "TrackingEvent",
    "ValidationFinished",
    "Waiting",
    "Warned",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run is about to gather its first batch.

    Attributes:
        plan_text: What will run, in words.
        total_steps: Training steps of the whole run; None where the source is open-ended.
        start_step: Steps of it that earlier sessions have already done.
    """

    plan_text: str
    total_steps: int | None = None
    start_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFinished:
    """One rollout ended, well or not.

    Attributes:
        split: "train", or the name of the validation it belongs to.
        scenario_id: What was played.
        member: Its place in the group, from 0.
        seconds: How long it took.
        failure: What went wrong, in one line; None where nothing did.
        tokens: Completion tokens that the server reported; 0 where it reported none.
    """

    split: str
    scenario_id: str
    member: int
    seconds: float
    failure: str | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """One training step is done and logged.

    Attributes:
        step: The backend's step after it.
        epoch: The epoch of its batch, from 0.
        index: Which batch of the run it was, from 0.
        total_steps: Training steps of the whole run; None where the source is open-ended.
        metrics: What was logged for the step, by ART's names (`train/reward`, …).
        tokens_per_s: Tokens sampled, those of lost episodes included, per second of the step; None where the server
            reports no tokens.
        seconds: How long the step took, gathering and training included, validation not.
    """

    step: int
    epoch: int
    index: int
    total_steps: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    tokens_per_s: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFinished:
    """One validation is done and logged.

    Attributes:
        name: Which validation.
        step: The backend's step that was validated.
        metrics: What was logged, by ART's names (`val/reward`, …).
        seconds: How long it took.
        comparisons: How it stands beside earlier validations of the set, in words, by which.
    """

    name: str
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    comparisons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPruned:
    """Checkpoints were deleted.

    Attributes:
        step: The step after which it happened.
        kept: Each step that stayed, and why.
        deleted: The steps that went.
        why_deleted: The reason for each of them.
    """

    step: int
    kept: Mapping[int, str]
    deleted: tuple[int, ...] = ()
    why_deleted: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """No rollout of a step or validation has ended for a minute, or for two, four and so on, and no group was scored.

    Attributes:
        scenarios: What is being played.
        seconds: Since when nothing has ended.
        running: How many rollouts are being played.
        scoring: The scenario of each group that is being scored.
    """

    scenarios: tuple[str, ...]
    seconds: float
    running: int
    scoring: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked:
    """The event loop was held up for more than a second, and every rollout with it.

    Attributes:
        seconds: For how long.
        where: The call that did it, such as "game.py:12 in step"; "" where it was many: too many rollouts at once.
    """

    seconds: float
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something a person should know, although the run goes on."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run ended by itself, and the report says why; an error, a signal or a cancellation ends it without this."""

    report_text: str


TrackingEvent = (
    RunStarted
    | RolloutFinished
    | StepFinished
    | ValidationFinished
    | CheckpointsPruned
    | Waiting
    | LoopBlocked
    | Warned
    | RunFinished
)
