"""Whether a reward is one: refused with what makes one of it, wherever a reward is handed over."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

from artkit.errors import ConfigurationError
from artkit.rewards.adapter import RewardAdapter
from artkit.rewards.graders.text_grader import TextGrader, makes_grader

__all__ = ["check_adapter", "check_reward_part"]

_ASYNC_HINT = "make it `async def score(self, group)`"


def check_adapter(name: str, reward: object) -> None:
    """Refuse what is no `RewardAdapter`.

    Args:
        name: What the reward is called where it was given.
        reward: What was given.

    Raises:
        ConfigurationError: It is none; the hint makes one of it.
    """
    if not isinstance(reward, RewardAdapter):
        raise _refusal(name, reward, "RewardAdapter")


def check_reward_part(name: str, reward: object) -> None:
    """Refuse what cannot score a group, before one was played.

    A callable that is no adapter passes: it may fit ART's `after_each`, which is known only once it is called.

    Args:
        name: What the reward is called where it was given.
        reward: What was given.

    Raises:
        ConfigurationError: It cannot; the hint makes a reward of it.
    """
    if isinstance(reward, RewardAdapter):
        _check_async(reward)
    elif isinstance(reward, TextGrader | type) or makes_grader(reward) or not callable(reward):
        raise _refusal(name, reward, "reward that can be called")


def _refusal(name: str, reward: object, wanted: str) -> ConfigurationError:
    if isinstance(reward, type):
        return ConfigurationError(f"{name}={reward.__name__} is a class, not an object", f"give {reward.__name__}(…)")
    if isinstance(reward, TextGrader):
        return ConfigurationError(
            f"{name}={reward!r} is a grader of one episode, no {wanted}", f"give ProgrammaticReward({reward!r})"
        )
    if makes_grader(reward):
        maker: Any = reward
        return ConfigurationError(
            f"{name}={maker.__name__} makes a grader when it is called, and is no {wanted}",
            f"give ProgrammaticReward({maker.__name__}(…))",
        )
    if callable(reward):
        return ConfigurationError(
            f"{name}={reprlib.repr(reward)} is no {wanted}",
            "give ProgrammaticReward(fn) for a function fn of one episode; what looks at whole groups derives from "
            "RewardAdapter",
        )
    return ConfigurationError(
        f"{name}={reprlib.repr(reward)} is no {wanted}", "give a RewardAdapter, such as EnvironmentReward()"
    )


def _check_async(reward: RewardAdapter) -> None:
    """Of a plain method it is known whether it can be awaited; of any other callable only when it is called."""
    score = type(reward).score
    if inspect.isfunction(score) and not any(map(inspect.iscoroutinefunction, (score, inspect.unwrap(score)))):
        raise ConfigurationError(f"{type(reward).__name__}.score cannot be awaited", _ASYNC_HINT)
