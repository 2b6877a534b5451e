"""Figures of scored groups that show what a reward really rewards."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from artkit.bridge.safe_values import safe_number
from artkit.rewards.score import ROUNDING
from artkit.rewards.turns import call_arguments, replies, reply_text_of

if TYPE_CHECKING:
    import art

__all__ = ["RewardFigures", "reply_length", "reward_figures"]

# Of 16 independent pairs, one chance in 400 gives a correlation of 0.7.
_MIN_MEMBERS = 16
# Half of the rollouts teach something: below that, most of what was paid for is thrown away.
_MAX_EQUAL_SHARE = 0.5
# Length then explains half of the reward's variance: 0.7 squared.
_MAX_CORRELATION = 0.7
# All other parts together are then a tenth of the differences: the learner hardly sees them.
_MAX_PART_SHARE = 0.9
# Squares of what is no larger can be summed up.
_LARGEST = 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardFigures:
    """What the rewards of some groups look like; `reward_figures` works it out.

    Attributes:
        members: How many members were scored.
        groups: How many groups have two or more of them; the shares below are taken over these.
        low: The lowest reward; None without members.
        high: The highest reward; None without members.
        mean: The mean reward; None without members.
        equal_share: The share of groups whose rewards are all equal, so that they teach nothing; None without groups.
        length_correlation: Pearson's correlation, in [-1, 1], of reward and length of reply, both less their group's
            mean, as an advantage is; without groups, of all members. None where either never varies.
        part_shares: For a reward of parts, the share of each in the variance within groups, by name; empty where
            nothing varies.
    """

    members: int
    groups: int
    low: float | None
    high: float | None
    mean: float | None
    equal_share: float | None
    length_correlation: float | None
    part_shares: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong, in words; nothing is said of fewer than 16 members, for which chance is enough."""
        return tuple(self.findings.values())

    @property
    def findings(self) -> dict[str, str]:
        """The warnings by what they are about: "range", "equal", "length", "part" and its name."""
        found: dict[str, str] = {}
        if self.members < _MIN_MEMBERS:
            return found
        if self.low is not None and self.high is not None and self.high - self.low <= ROUNDING:
            found["range"] = (
                f"all {self.members} rewards are {self.low:g}: nothing can be learned from them; give tasks that the "
                "model sometimes solves, or a reward that also pays for part of the way"
            )
        elif self.equal_share is not None and self.equal_share > _MAX_EQUAL_SHARE:
            found["equal"] = (
                f"{self.equal_share:.0%} of the groups have equal rewards and teach nothing: "
                "the tasks are too easy or too hard, or the reward is too coarse"
            )
        if self.length_correlation is not None and abs(self.length_correlation) > _MAX_CORRELATION:
            what = "longer" if self.length_correlation > 0 else "shorter"
            found["length"] = (
                f"reward and length correlate by {self.length_correlation:+.2f}: writing {what} replies may be all "
                "that is learned"
            )
        for name, share in self.part_shares.items():
            if len(self.part_shares) > 1 and share > _MAX_PART_SHARE:
                found[f"part {name}"] = (
                    f"part {name!r} makes {share:.0%} of the differences: the other parts hardly count"
                )
        return found


def reward_figures(
    groups: Iterable[art.TrajectoryGroup], *, weights: Mapping[str, float] | None = None
) -> RewardFigures:
    """Work out the figures of scored groups, such as those of one training step. Changes nothing and never raises.

    Args:
        groups: Scored groups. A member whose reward is not finite is passed over.
        weights: The weights of a `WeightedReward`, whose parts are then read from the metrics `<name>_score`.
    """
    scored = [_finite(group.trajectories) for group in groups]
    scored = [members for members in scored if members]
    compared = [members for members in scored if len(members) > 1]
    rewards = [[float(member.reward) for member in members] for members in scored]
    flat = [reward for each in rewards for reward in each]
    is_equal = [max(each) - min(each) <= ROUNDING for each in rewards if len(each) > 1]
    return RewardFigures(
        members=len(flat),
        groups=len(compared),
        low=min(flat, default=None),
        high=max(flat, default=None),
        mean=_mean(flat) if flat else None,
        equal_share=statistics.fmean(is_equal) if is_equal else None,
        length_correlation=_length_correlation(compared or [[member for each in scored for member in each]]),
        part_shares=MappingProxyType(_part_shares(compared, weights or {})),
    )


def reply_length(trajectory: art.Trajectory) -> int:
    """Return how many characters the model wrote, in all its turns and tool calls."""
    turns = replies(trajectory)
    return sum(len(text) for turn in turns for text in (reply_text_of(turn), *call_arguments(turn)))


def _finite(members: Iterable[art.Trajectory]) -> list[art.Trajectory]:
    return [member for member in members if safe_number(member.reward) is not None]


def _length_correlation(groups: Sequence[Sequence[art.Trajectory]]) -> float | None:
    rewards = _deviations(_within_range([[float(member.reward) for member in members] for members in groups]))
    lengths = _deviations([[float(reply_length(member)) for member in members] for members in groups])
    if not (_varies(rewards) and _varies(lengths)):
        return None
    return statistics.correlation(rewards, lengths)


def _part_shares(groups: Sequence[Sequence[art.Trajectory]], weights: Mapping[str, float]) -> dict[str, float]:
    # One list for all parts: they are scaled alike, or not at all.
    scores = [[_weighted(member, name, weights) for member in members] for name in weights for members in groups]
    lists = iter(_within_range([[score for score in each if score is not None] for each in scores]))
    spread = {name: sum(value**2 for value in _deviations([next(lists) for _ in groups])) for name in weights}
    total = sum(spread.values())
    return {name: each / total for name, each in spread.items()} if total > ROUNDING**2 else {}


def _weighted(member: art.Trajectory, name: str, weights: Mapping[str, float]) -> float | None:
    score = safe_number(member.metrics.get(f"{name}_score"))
    return None if score is None else safe_number(weights[name] * score)


def _within_range(groups: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """Return the values, scaled where their squares would be beyond all numbers; shares and correlations stay."""
    largest = max((abs(value) for each in groups for value in each), default=0.0)
    return groups if largest <= _LARGEST else [[value / largest for value in each] for each in groups]


def _deviations(groups: Iterable[Sequence[float]]) -> list[float]:
    """Return every value less the mean of its group."""
    deviations = []
    for values in groups:
        if values:
            mean = statistics.fmean(values)
            deviations += [value - mean for value in values]
    return deviations


def _mean(values: Sequence[float]) -> float:
    try:
        return statistics.fmean(values)
    except OverflowError:  # the sum of finite numbers may be beyond all numbers; their mean is not
        return math.fsum(value / len(values) for value in values)


def _varies(values: Sequence[float]) -> bool:
    return len(values) > 1 and max(values) - min(values) > ROUNDING
