"""Reading what a reward adapter answered for one member: a checked score, or the reason why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from artkit.errors import ArtkitError, NothingToCompareError, RewardError
from artkit.rewards.score import Score

__all__ = ["Scored", "Unscored", "problem_of", "read_answer", "without_name"]

_TAKEN_NAMES = frozenset({"reward", "reward_std_dev", "exceptions", "exception_rate"})
"""ART computes or counts these itself: a metric of the same name would be mixed into its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A score that may be written.

    Attributes:
        reward: The reward, finite.
        metrics: Finite numbers and bools.
        explanation: The explanation, or None.
        causes: Why parts of it are missing.
    """

    reward: float
    metrics: Mapping[str, float | int | bool] = field(default_factory=dict)
    explanation: str | None = None
    causes: tuple[Exception, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """A member without a score.

    Attributes:
        cause: Why there is none.
        is_error: Whether something went wrong. If not, the adapter itself said that it can't score the member.
        metrics: What is to be kept beside it: finite numbers and bools.
        who: Names adapter, scenario and member where the cause does not: it is an exception that scoring ended in.
        more_causes: Why it could not have been scored either way.
    """

    cause: Exception
    is_error: bool
    metrics: Mapping[str, float | int | bool] = field(default_factory=dict)
    who: str = ""
    more_causes: tuple[Exception, ...] = ()

    @property
    def causes(self) -> tuple[Exception, ...]:
        """All of them, the one that counts first."""
        return (self.cause, *self.more_causes)


def read_answer(answer: object, who: str) -> Scored | Unscored:
    """Read what an adapter answered for one member.

    Args:
        answer: A `Score`, a number or bool, None, or the exception that scoring ended in.
        who: Names adapter, scenario and member, for the cause.
    """
    if isinstance(answer, NothingToCompareError):
        cause: RewardError = NothingToCompareError(f"{who}: {answer.problem}", answer.hint)
        return Unscored(cause=cause, is_error=False)
    if isinstance(answer, Exception):
        return Unscored(cause=answer, is_error=True, who=who)
    if isinstance(answer, BaseException):
        cause = RewardError(
            f"{who}: scoring it ended in {answer!r}", "something that it awaited was cancelled or ended"
        )
        cause.__cause__ = answer
        return Unscored(cause=cause, is_error=True)
    score = answer if isinstance(answer, Score) else Score(answer)  # type: ignore[arg-type]  # checked right here
    try:
        metrics = _read_metrics(score.metrics, who)
        if score.value is None:
            cause = RewardError(f"{who}: not scored: {score.explanation or 'the adapter returned None'}", _NONE_HINT)
            return Unscored(cause=cause, is_error=False, metrics=metrics)
        reward = float(_read_number(score.value, f"{who}: reward"))
        return Scored(reward=reward, metrics=metrics, explanation=score.explanation)
    except RewardError as error:
        return Unscored(cause=error, is_error=True)


def problem_of(error: BaseException) -> str:
    """Return what an error says, without its hint: for an error that has one of its own."""
    return error.problem if isinstance(error, ArtkitError) else str(error)


_NAME = re.compile(r"\A\w+: scenario .*?, member \d+: ", re.DOTALL)


def without_name(message: str) -> str:
    """Return the message of a cause without adapter, scenario and member, so that equal causes read the same.

    >>> without_name("EnvironmentReward: scenario 'a', member 3: not scored: it was not played")
    'not scored: it was not played'
    """
    return _NAME.sub("", message)


_NONE_HINT = "the member leaves its group; it is never counted as reward 0.0"
_NUMBER_HINT = "give a finite number or a bool; None for an episode that can't be scored"


def _read_metrics(metrics: object, who: str) -> dict[str, float | int | bool]:
    if not isinstance(metrics, Mapping):
        raise RewardError(f"{who}: metrics {metrics!r} are no mapping", "give {name: number}")
    read = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not name or name in _TAKEN_NAMES:
            msg = f"{who}: a metric can't be called {name!r}"
            raise RewardError(msg, f"use a name other than {', '.join(sorted(_TAKEN_NAMES))}, which ART logs itself")
        read[name] = _read_number(value, f"{who}: metric {name!r}")
    return read


def _read_number(value: Any, what: str) -> float | int | bool:
    """Return `value` as a Python number; NumPy's and torch's scalars are taken by their `item()`."""
    item = getattr(value, "item", None)
    number = value if item is None or isinstance(value, bool | int | float) else _item(item)
    if isinstance(number, bool):
        return number
    if not isinstance(number, Real):
        raise RewardError(f"{what} {value!r} is no number", _NUMBER_HINT)
    try:
        plain = int(number) if isinstance(number, Integral) else float(number)
        is_finite = math.isfinite(plain)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise RewardError(f"{what} {value!r} is not finite", _NUMBER_HINT)
    return plain


def _item(item: Any) -> object:
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):  # an array of several values
        return None
