"""Running a validation, and what it comes to."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from artkit.bridge import loggable
from artkit.rewards import RewardAdapter
from artkit.rollouts import GatherCounts, MemberFinished, Rollout, gather_groups
from artkit.training.row import is_own_metric, partial_counts

if TYPE_CHECKING:
    import art

    from artkit.rollouts import AnyRollout, GroupReward
    from artkit.training.settings import TrainerSettings
    from artkit.training.validation import Validation

__all__ = ["ValidationResult", "rollouts_per_scenario", "validate"]

# Below this share of scored episodes a mean says more about what was lost than about the model.
_RANKING_SHARE = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationResult:
    """What one validation came to.

    Attributes:
        name: Which validation.
        groups: One group per scenario, in order.
        lost: Episodes that could not be scored or may not count.
        counts: How the rollouts ended.
        seconds: How long it took.
    """

    name: str
    groups: list[art.TrajectoryGroup]
    lost: list[art.Trajectory]
    counts: GatherCounts
    seconds: float

    @property
    def scored_share(self) -> float:
        """The share of the episodes that were scored, in [0, 1]; those that a relative reward found alike left out."""
        return self.counts.grouped / max(self.counts.started - self.counts.alike, 1)

    @property
    def ranks(self) -> bool:
        """Whether this validation may rank a checkpoint: losing the hard scenarios must not look like progress."""
        return self.counts.grouped > 0 and self.scored_share >= _RANKING_SHARE

    @functools.cached_property  # large groups take long to be made safe for the log
    def metrics(self) -> dict[str, float]:
        """The mean reward, the mean of every metric over the episodes that have it, and the counts."""
        values: dict[str, list[float]] = defaultdict(list)
        groups = loggable(self.groups, is_taken=is_own_metric)
        for group in groups:
            for trajectory in group.trajectories:
                values["reward"].append(trajectory.reward)
                for name, value in trajectory.metrics.items():
                    values[name].append(float(value))
        means = {name: fmean(numbers) for name, numbers in values.items()}
        return means | partial_counts(groups) | self.summary

    @property
    def summary(self) -> dict[str, float]:
        """The counts alone."""
        return {
            "scenarios": float(len(self.groups)),
            "scored_share": self.scored_share,
            "rollouts_lost": float(sum(self.counts.lost.values())),
            "rollouts_failed": float(sum(self.counts.failed.values())),
        }


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
) -> ValidationResult:
    """Play and score `validation` with `model`.

    Args:
        validation: What to play; its own rollout and reward hold before the two given here.
        model: Any model with an inference endpoint.
        rollout: The trainer's rollout.
        reward: The trainer's reward.
        settings: The trainer's settings.
        on_event: Told of each rollout as it ends.

    Raises:
        AllRolloutsFailedError: Every rollout failed, or more than `settings.max_exceptions`.
    """
    started_s = time.perf_counter()
    reward = validation.reward or reward
    gathered = await gather_groups(
        _seeded(validation.rollout or rollout, settings.seed),
        model,
        validation.selected,
        rollouts_per_group=rollouts_per_scenario(validation, reward, settings),
        reward=reward,
        max_exceptions=settings.max_exceptions,
        max_concurrent=settings.max_concurrent,
        on_event=on_event,
    )
    return ValidationResult(
        name=validation.name,
        groups=gathered.groups,
        lost=gathered.lost,
        counts=gathered.counts,
        seconds=time.perf_counter() - started_s,
    )


def _seeded(rollout: AnyRollout, seed: int) -> AnyRollout:
    """Give a rollout without a seed one, so that every validation samples alike."""
    if isinstance(rollout, Rollout) and rollout.sampling.seed is None:
        return dataclasses.replace(rollout, sampling=dataclasses.replace(rollout.sampling, seed=seed))
    return rollout
