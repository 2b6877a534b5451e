"""A reward of several parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from artkit.errors import ConfigurationError, NothingToCompareError, RewardError
from artkit.rewards.adapter import Answer, OnError, RewardAdapter, check_on_error
from artkit.rewards.reading import Scored, Unscored
from artkit.rewards.score import Score
from artkit.transport import first_failure_group

if TYPE_CHECKING:
    import art

__all__ = ["OnUnscored", "WeightedReward"]

OnUnscored: TypeAlias = Literal["drop_member", "drop_part"]


class WeightedReward(RewardAdapter):
    """Rewards each episode with the weighted sum of what its parts say: Σ weight · score.

    Each part is logged as the metric `<name>_score`, unweighted; the parts' own metrics and explanations are kept.
    The parts score a group at the same time.

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
        ConfigurationError: There is no part, a name is no text, or a weight is 0 or not finite.
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

    @property
    def required_environment(self) -> tuple[str, ...]:
        """The environment variables that the parts need."""
        names = [name for part, _ in self.parts.values() for name in getattr(part, "required_environment", ())]
        return tuple(dict.fromkeys(names))

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
        used = self._used(results)
        return [self._sum({name: results[name][number] for name in used}) for number in range(len(group.trajectories))]

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

    def _sum(self, results: Mapping[str, Scored | Unscored]) -> Scored | Unscored:
        """Return one member's sum over the given parts."""
        weights = self.weights
        total, explanations = 0.0, []
        metrics: dict[str, float | int | bool] = {}
        if self.on_unscored == "drop_part":
            metrics = {f"{name}_dropped": name not in results for name in weights}
        for name, result in results.items():
            if isinstance(result, Unscored):
                return result
            total += weights[name] * result.reward
            own = {**result.metrics, f"{name}_score": result.reward}
            # Saying the same twice is no collision: RULER logs its own score, and every RULER the reward before it.
            clash = {metric for metric in own.keys() & metrics.keys() if own[metric] != metrics[metric]}
            if clash or result.metrics.get(f"{name}_score", result.reward) != result.reward:
                return Unscored(cause=_collision(name, clash), is_error=True)
            metrics.update(own)
            if result.explanation is not None:
                explanations.append(f"{name}: {result.explanation}")
        scale = _size(weights.values()) / _size(weights[name] for name in results)
        if not math.isfinite(total * scale):
            cause = RewardError(f"the weighted sum {total * scale!r} is not finite", "give smaller weights or scores")
            return Unscored(cause=cause, is_error=True)
        return Scored(reward=total * scale, metrics=metrics, explanation="; ".join(explanations) or None)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name!r}: ({part!r}, {weight!r})" for name, (part, weight) in self.parts.items())
        return f"WeightedReward({{{parts}}}, on_unscored={self.on_unscored!r}, on_error={self.on_error!r})"


def _check(parts: object, on_unscored: str) -> None:
    if not isinstance(parts, Mapping) or not parts:
        raise ConfigurationError(f"parts={parts!r} holds no part", 'give {"name": (adapter, weight)}')
    for name, part in parts.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"parts: the name {name!r} is no text", "name each part by what it looks at")
        if not isinstance(part, tuple) or len(part) != 2 or not isinstance(part[0], RewardAdapter):
            msg = f"parts[{name!r}]={part!r} is no (adapter, weight)"
            raise ConfigurationError(
                msg, "give a RewardAdapter and its weight; ProgrammaticReward makes one of a function"
            )
        weight = part[1]
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not math.isfinite(weight) or weight == 0:
            msg = f"parts[{name!r}]: the weight {weight!r} is no finite number other than 0"
            raise ConfigurationError(msg, "give a positive number, a negative one for a penalty, or leave the part out")
    if on_unscored not in get_args(OnUnscored):
        msg = f"on_unscored={on_unscored!r} is unknown"
        raise ConfigurationError(msg, f"use one of {', '.join(map(repr, get_args(OnUnscored)))}")


def _strictest(parts: Mapping[str, tuple[RewardAdapter, float]]) -> OnError:
    asked = {part.on_error for part, _ in parts.values()}
    strictness: tuple[OnError, ...] = ("raise", "drop_group")
    return next((on_error for on_error in strictness if on_error in asked), "drop_member")


def _size(weights: Iterable[float]) -> float:
    return sum(abs(weight) for weight in weights)


def _collision(name: str, metrics: Iterable[str]) -> RewardError:
    names = ", ".join(map(repr, sorted(metrics))) or repr(f"{name}_score")
    return RewardError(
        f"part {name!r} sets the metric {names}, which another part sets too", "rename it in one of them"
    )


def _answer(result: Scored | Unscored) -> Answer:
    if isinstance(result, Scored):
        return Score(result.reward, metrics=result.metrics, explanation=result.explanation)
    if result.is_error or isinstance(result.cause, NothingToCompareError):
        return result.cause
    return Score(None, metrics=result.metrics, explanation=str(result.cause))
