"""Running a validation."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from artkit.episodes import Episode, read_groups, record
from artkit.errors import AllRolloutsFailedError
from artkit.rewards import RewardAdapter
from artkit.rollouts import (
    GatheredGroups,
    GatherNotice,
    MemberFinished,
    RememberingRollout,
    Rollout,
    TaskRollout,
    attempting,
    gather_groups,
    with_sampling,
)
from artkit.training.failure_window import causes_of
from artkit.training.validation_result import ValidationResult

if TYPE_CHECKING:
    from pathlib import Path

    import art

    from artkit.rollouts import AnyRollout, GroupReward, Sampling
    from artkit.training.settings import TrainerSettings
    from artkit.training.validation import Validation

__all__ = ["rollouts_per_scenario", "validate"]


def rollouts_per_scenario(validation: Validation, reward: GroupReward, settings: TrainerSettings) -> int:
    """Return how often each scenario is played."""
    if validation.rollouts_per_scenario is not None:
        return validation.rollouts_per_scenario
    relative = isinstance(reward, RewardAdapter) and reward.relative
    return settings.rollouts_per_group if relative else 1


async def validate(
    validation: Validation,
    model: art.Model[Any, Any],
    *,
    rollout: AnyRollout,
    reward: GroupReward,
    settings: TrainerSettings,
    on_event: Callable[[MemberFinished], None] | None = None,
    on_notice: Callable[[GatherNotice], None] | None = None,
    record_to: Path | None = None,
) -> ValidationResult:
    """Play and score `validation` with `model`.

    Args:
        validation: What to play; its own rollout and reward hold before the two given here.
        model: Any model with an inference endpoint.
        rollout: The trainer's rollout.
        reward: The trainer's reward.
        settings: The trainer's settings.
        on_event: Told of each rollout as it ends.
        on_notice: Told when no rollout ends, and when the event loop does not turn; None logs it.
        record_to: Where each episode is written as it ends; those that are there already are not played again.

    Returns:
        What it came to. Where every rollout failed, that is a result too, with its cause.

    Raises:
        AllRolloutsFailedError: More than `settings.max_exceptions` rollouts failed.
        OutageError: A service is gone.
    """
    started_s = time.perf_counter()
    reward = validation.reward or reward
    playing = _sampling_alike(validation, rollout, settings.seed)
    try:
        with _remembering(playing, validation, record_to) as remembering:
            gathered = await gather_groups(
                remembering,
                model,
                validation.selected,
                rollouts_per_group=rollouts_per_scenario(validation, reward, settings),
                reward=reward,
                max_exceptions=settings.max_exceptions,
                max_concurrent=settings.max_concurrent,
                on_event=on_event,
                on_notice=on_notice,
            )
    except AllRolloutsFailedError as error:
        if settings.max_exceptions is not None or not isinstance(error.gathered, GatheredGroups):
            raise
        gathered = error.gathered
    return ValidationResult(
        name=validation.name,
        groups=gathered.groups,
        lost=gathered.lost,
        counts=gathered.counts,
        seconds=time.perf_counter() - started_s,
        pass_at=validation.pass_at,
        success_threshold=validation.success_threshold,
        cause=causes_of(gathered),
    )


@contextlib.contextmanager
def _remembering(playing: AnyRollout, validation: Validation, record_to: Path | None) -> Iterator[AnyRollout]:
    if record_to is None:
        yield playing
        return
    with record(record_to) as recorder:
        groups, _ = read_groups(record_to, validation.selected)
        episodes = (episode for group in groups for episode in group.trajectories)
        known = {(str(episode.metadata["scenario_id"]), _member(episode)): episode for episode in episodes}
        yield RememberingRollout(attempting(playing), recorder, known)


def _member(episode: art.Trajectory) -> int:
    return episode.member if isinstance(episode, Episode) else 0


def _sampling_alike(validation: Validation, rollout: AnyRollout, seed: int) -> AnyRollout:
    """Return the rollout of a validation; one without a seed gets one, so that every validation samples alike."""
    rollout = validation.rollout or rollout
    if not isinstance(rollout, Rollout | TaskRollout):
        return rollout

    def change(own: Sampling) -> Sampling:
        sampling = validation.sampling or own
        return dataclasses.replace(sampling, seed=seed) if sampling.seed is None else sampling

    return with_sampling(rollout, change)
