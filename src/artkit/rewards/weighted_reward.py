"""A reward of several parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from artkit.errors import ConfigurationError, NothingToCompareError, RewardError
from artkit.rewards.adapter import Answer, OnError, RewardAdapter, check_on_error, who_is_scored
from artkit.rewards.reading import Scored, Unscored, problem_of
from artkit.rewards.reward_check import check_adapter, check_reward_part
from artkit.rewards.score import Score
from artkit.rewards.settings import is_number
from artkit.transport import first_failure_group

if TYPE_CHECKING:
    import art

__all__ = ["OnUnscored", "WeightedReward"]

OnUnscored: TypeAlias = Literal["drop_member", "drop_part"]


class WeightedReward(RewardAdapter):
    """Rewards each episode with the weighted sum of what its parts say: Σ weight · score.

    Each part is logged as the metric `<name>_score`, unweighted; the parts' own metrics and explanations are kept.
    The parts score a group at the same time. Where two of them turn out to set one metric to different values, the
    whole group is left unscored, as an error.

    A member that a part could not score is left unscored, for a sum without that part can't be compared with its
    siblings'. With `on_unscored="drop_part"` the whole group goes without that part instead, so that its members stay
    comparable: the sum of the other parts is scaled up by Σ|weight| of all / Σ|weight| of the others, and the metric
    `<name>_dropped` says how often it happened.

    Args:
        parts: `{name: (adapter, weight)}`; a negative weight makes a penalty of its part.
        on_unscored: What a member that one part could not score leads to.
        on_error: What a part's error leads to, once that part's own `on_error` has been heard, which may have raised
            it. None takes the parts' strictest: "raise", then "drop_group", then "drop_member".

    Raises:
        ConfigurationError: There is no part, a name is no text, a weight is 0 or not finite, or two parts are known to
            set the same metric.
    """

    def __init__(
        self,
        parts: Mapping[str, tuple[RewardAdapter, float]],
        *,
        on_unscored: OnUnscored = "drop_member",
        on_error: OnError | None = None,
    ) -> None:
        _check(parts, on_unscored)
        self.parts = dict(parts)
        self.on_unscored = on_unscored
        self.on_error = _strictest(parts) if on_error is None else on_error
        check_on_error(self.on_error)
        self.relative = any(part.relative for part, _ in parts.values())
        self.metric_names = _metric_names(parts, on_unscored)

    @property
    def required_environment(self) -> tuple[str, ...]:  # type: ignore[override]  # what parts need may change
        """The environment variables that the parts need."""
        return tuple(dict.fromkeys(name for part, _ in self.parts.values() for name in part.required_environment))

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each part, by its name."""
        return {name: weight for name, (_, weight) in self.parts.items()}

    async def preview(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        check_on_error(self.on_error)
        # Not by way of `score`: what a part raises here is meant to be raised.
        return self._settle(await self._combined(group))

    async def score(self, group: art.TrajectoryGroup) -> list[Answer]:
        """Return the sum of each member, or why it has none."""
        return [_answer(result) for result in await self._combined(group)]

    async def _combined(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        if not group.trajectories:
            return []
        results = await self._results(group)
        who, used = who_is_scored(self, group), self._used(results)
        dropped = self._dropped(used)
        members = [{name: each[number] for name, each in results.items()} for number in range(len(group.trajectories))]
        for member in members:
            if problem := _clash({name: member[name] for name in used}, dropped):
                # Not the members alone whose values differ: the ones that are left would be a selection.
                cause = RewardError(f"{who}: {problem}", "rename it in one of them")
                return [Unscored(cause=cause, is_error=True)] * len(members)
        return [self._sum(member, used, f"{who}, member {number}") for number, member in enumerate(members)]

    def _dropped(self, used: Sequence[str]) -> dict[str, bool]:
        """Return the metrics that say which parts a group goes without."""
        return {f"{name}_dropped": name not in used for name in self.parts if self.on_unscored == "drop_part"}

    async def _results(self, group: art.TrajectoryGroup) -> dict[str, list[Scored | Unscored]]:
        async with first_failure_group() as tasks:
            running = {name: tasks.create_task(part.preview(group)) for name, (part, _) in self.parts.items()}
        return {name: task.result() for name, task in running.items()}

    def _used(self, results: Mapping[str, Sequence[Scored | Unscored]]) -> list[str]:
        """Return the parts that count for this group; all of them if none could score every member."""
        if self.on_unscored == "drop_member":
            return list(results)
        complete = [name for name, each in results.items() if all(isinstance(result, Scored) for result in each)]
        return complete or list(results)

    def _sum(self, results: Mapping[str, Scored | Unscored], used: Sequence[str], who: str) -> Scored | Unscored:
        """Return one member's sum over the parts that are used."""
        causes = tuple(cause for result in results.values() for cause in result.causes)
        failed = next((results[name] for name in used if isinstance(results[name], Unscored)), None)
        if isinstance(failed, Unscored):
            others = tuple(cause for cause in causes if cause is not failed.cause)
            return dataclasses.replace(failed, more_causes=others)
        weights = self.weights
        scored = {name: result for name, result in results.items() if isinstance(result, Scored) and name in used}
        scale = _size(weights.values()) / _size(weights[name] for name in scored)
        total = scale * sum(weights[name] * result.reward for name, result in scored.items())
        if not math.isfinite(total):
            cause = RewardError(f"{who}: the weighted sum {total!r} is not finite", "give smaller weights or scores")
            return Unscored(cause=cause, is_error=True)
        metrics: dict[str, float | int | bool] = {**self._dropped(used)}
        for name, result in scored.items():
            metrics |= {**result.metrics, f"{name}_score": result.reward}
        words = [f"{name}: {said}" for name, result in results.items() if (said := _words(result, name in used))]
        return Scored(reward=total, metrics=metrics, explanation="; ".join(words) or None, causes=causes)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name!r}: ({part!r}, {weight!r})" for name, (part, weight) in self.parts.items())
        return f"WeightedReward({{{parts}}}, on_unscored={self.on_unscored!r}, on_error={self.on_error!r})"


def _check(parts: object, on_unscored: str) -> None:
    if not isinstance(parts, Mapping):
        raise ConfigurationError(f"parts={parts!r} is no mapping", 'give {"name": (adapter, weight)}')
    if not parts:
        raise ConfigurationError(f"parts={parts!r} holds no part", 'give {"name": (adapter, weight)}')
    for name, part in parts.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"parts: the name {name!r} is no text", "name each part by what it looks at")
        if not isinstance(part, tuple) or len(part) != 2:
            raise ConfigurationError(f"parts[{name!r}]={part!r} is no (adapter, weight)", "give both, as a tuple")
        check_adapter(f"parts[{name!r}]", part[0])
        check_reward_part(f"parts[{name!r}]", part[0])
        if not is_number(part[1]) or part[1] == 0:
            msg = f"parts[{name!r}]: the weight {part[1]!r} is no finite number other than 0"
            raise ConfigurationError(msg, "give a positive number, a negative one for a penalty, or leave the part out")
    if on_unscored not in get_args(OnUnscored):
        msg = f"on_unscored={on_unscored!r} is unknown"
        raise ConfigurationError(msg, f"use one of {', '.join(map(repr, get_args(OnUnscored)))}")


def _metric_names(parts: Mapping[str, tuple[RewardAdapter, float]], on_unscored: str) -> frozenset[str]:
    """Return the metrics that the parts are known to set.

    Raises:
        ConfigurationError: Two of them set the same.
    """
    taken = {f"{name}_dropped": name for name in parts if on_unscored == "drop_part"}
    for name, (part, _) in parts.items():
        own = f"{name}_score"
        if own in part.metric_names and isinstance(part, WeightedReward):
            raise ConfigurationError(f"parts[{name!r}] holds a part {name!r} itself", "rename one of them")
        for metric in sorted({own, *part.metric_names}):
            if metric in taken:
                raise ConfigurationError(
                    f"parts {taken[metric]!r} and {name!r} both set the metric {metric!r}",
                    "rename a part; two RulerRewards are told apart by their name=",
                )
            taken[metric] = name
    return frozenset(taken)


def _clash(results: Mapping[str, Scored | Unscored], taken: Mapping[str, bool]) -> str | None:
    """Return which part sets a metric of one member to another value than a part before it, or than its own score."""
    values: dict[str, float | int | bool] = {**taken}
    for name, result in results.items():
        if isinstance(result, Scored):
            # Saying the same twice is none: RULER logs its own score, and every RULER the reward before it.
            for metric, value in (*result.metrics.items(), (f"{name}_score", result.reward)):
                if values.setdefault(metric, value) != value:
                    return f"part {name!r} sets the metric {metric!r}, which another part sets too"
    return None


def _strictest(parts: Mapping[str, tuple[RewardAdapter, float]]) -> OnError:
    asked = {part.on_error for part, _ in parts.values()}
    strictness: tuple[OnError, ...] = ("raise", "drop_group")
    return next((on_error for on_error in strictness if on_error in asked), "drop_member")


def _size(weights: Iterable[float]) -> float:
    return sum(abs(weight) for weight in weights)


def _words(result: Scored | Unscored, is_used: bool) -> str | None:
    """Return what a part has to say of a member that is scored."""
    if isinstance(result, Unscored):
        return problem_of(result.cause)
    return result.explanation if is_used else None


def _answer(result: Scored | Unscored) -> Answer:
    if isinstance(result, Scored):
        return Score(result.reward, metrics=result.metrics, explanation=result.explanation)
    if result.is_error or isinstance(result.cause, NothingToCompareError):
        return result.cause
    return Score(None, metrics=result.metrics, explanation=problem_of(result.cause))
