"""What a validation came to: means, how far to trust them, and what was lost."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from artkit.bridge import loggable
from artkit.bridge.safe_values import safe_number
from artkit.training.row import is_own_metric, partial_counts, rewards_by_task
from artkit.validation import Estimate, estimate, mean_pass_at_k

if TYPE_CHECKING:
    import art

    from artkit.rollouts import GatherCounts

__all__ = ["ValidationResult", "scores_of"]

# Below this share of scored episodes a mean says more about what was lost than about the model.
_RANKING_SHARE = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationResult:
    """What one validation came to; printing it gives one line.

    Attributes:
        name: Which validation.
        groups: One group per scenario, in order.
        lost: Episodes that could not be scored or may not count.
        counts: How the rollouts ended.
        seconds: How long it took.
        pass_at: The k of each pass@k; None as `Validation` says.
        success_threshold: A reward of at least this is a success.
        cause: Why what is not scored is not, in words; several causes by count. Empty where all is scored.
    """

    name: str
    groups: list[art.TrajectoryGroup] = dataclasses.field(repr=False)
    lost: list[art.Trajectory] = dataclasses.field(repr=False)
    counts: GatherCounts
    seconds: float
    pass_at: Sequence[int] | None = None
    success_threshold: float = 1.0
    cause: str = ""

    @property
    def scored_share(self) -> float:
        """The share of the episodes that were scored, in [0, 1]; those that a relative reward found alike left out."""
        return self.counts.grouped / max(self.counts.started - self.counts.alike, 1)

    @property
    def ranks(self) -> bool:
        """Whether this validation may rank a checkpoint: losing the hard scenarios must not look like progress."""
        return self.counts.grouped > 0 and self.scored_share >= _RANKING_SHARE

    @functools.cached_property
    def scores(self) -> dict[str, float]:
        """The mean reward of each scenario that could be scored, by its id; `compare` takes two of these."""
        return scores_of(self.groups)

    @functools.cached_property
    def estimate(self) -> Estimate | None:
        """The mean reward with its standard error and 95 % interval; None where nothing could be scored."""
        return estimate(self._rewards)

    @functools.cached_property  # large groups take long to be made safe for the log
    def metrics(self) -> dict[str, float]:
        """The mean reward, the mean of every metric over the episodes that have it, and the summary."""
        values: dict[str, list[float]] = defaultdict(list)
        groups = loggable(self.groups, is_taken=is_own_metric)
        for group in groups:
            for trajectory in group.trajectories:
                values["reward"].append(trajectory.reward)
                for name, value in trajectory.metrics.items():
                    values[name].append(float(value))
        means = {name: fmean(numbers) for name, numbers in values.items()}
        return means | partial_counts(groups) | self.summary

    @functools.cached_property
    def summary(self) -> dict[str, float]:
        """What the groups alone do not say: how far to trust the mean, pass@k, the rates and the counts."""
        found = self.estimate
        bounds = {} if found is None else {"se": found.standard_error, "low": found.low, "high": found.high}
        return {
            **{f"reward_{name}": value for name, value in bounds.items() if value is not None},
            **rewards_by_task(self.groups),
            **self._pass_at_k(),
            **self._rates(),
            "scenarios": float(len(self.groups)),
            "scored_share": self.scored_share,
            "rollouts_lost": float(sum(self.counts.lost.values())),
            "rollouts_failed": float(sum(self.counts.failed.values())),
        }

    @property
    def _rewards(self) -> list[list[float]]:
        """The rewards of each group."""
        return [[float(trajectory.reward) for trajectory in group.trajectories] for group in self.groups]

    def _pass_at_k(self) -> dict[str, float]:
        """The mean pass@k, where 90 % of the scenarios or more have k scored rollouts: the others may be the hard ones.

        By itself where it is known what a success is: rewards are all 0 or 1, or a threshold was given.
        """
        rewards = self._rewards
        wanted = self.pass_at
        if wanted is None:
            most = max(map(len, rewards), default=0)
            is_known = self.success_threshold != 1.0 or all(reward in {0.0, 1.0} for each in rewards for reward in each)
            wanted = _powers_of_two(most) if is_known and most > 1 else ()
        successes = [[reward >= self.success_threshold for reward in each] for each in rewards]
        found = {}
        for k in wanted:
            share = sum(len(each) >= k for each in successes) / max(len(successes), 1)
            chance = mean_pass_at_k(successes, k)
            if chance is not None and share >= _RANKING_SHARE:
                found[f"pass@{k}"] = chance
        return found

    def _rates(self) -> dict[str, float]:
        """The shares of all rollouts, the lost and failed ones included."""
        episodes = [*self.lost, *(trajectory for group in self.groups for trajectory in group.trajectories)]
        started = max(self.counts.started, 1)
        broken = sum(self.counts.failed.values()) + sum(_is_set(episode, "error") for episode in episodes)
        return {
            "error_rate": broken / started,
            "truncated_rate": sum(_is_set(episode, "truncated") for episode in episodes) / started,
        }

    def __str__(self) -> str:
        found = self.estimate
        if found is None:
            return f"{self.name}: nothing could be scored: {self.cause or self.counts}"
        interval = "" if found.low is None else f" (95 % interval {found.low:.3f} to {found.high:.3f})"
        passes = "".join(f", {name} {value:.3f}" for name, value in self.summary.items() if name.startswith("pass@"))
        return (
            f"{self.name}: reward {found.mean:.3f}{interval}{passes}, {len(self.groups)} scenarios, "
            f"{self.scored_share:.0%} scored, {self.seconds:.1f} s"
        )


def scores_of(groups: Iterable[art.TrajectoryGroup]) -> dict[str, float]:
    """Return the mean reward of each group that has members, by the id of its scenario."""
    return {
        str(group.metadata["scenario_id"]): fmean(trajectory.reward for trajectory in group.trajectories)
        for group in groups
        if group.trajectories
    }


def _powers_of_two(most: int) -> list[int]:
    return sorted({1 << power for power in range(most.bit_length())} | {most})


def _is_set(episode: art.Trajectory, metric: str) -> bool:
    return bool(safe_number(episode.metrics.get(metric)))
