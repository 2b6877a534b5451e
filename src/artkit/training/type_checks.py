"""What a trainer's parts must be, refused when they are handed over and not in the middle of a run."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from typing import Any

from artkit.checkpoints import CheckpointPolicy
from artkit.environments import Environment
from artkit.errors import ConfigurationError
from artkit.rewards import GroupFilter, check_reward_part
from artkit.training.settings import TrainerSettings
from artkit.validation import ValidationSchedule

__all__ = ["check_type"]


def check_type(name: str, part: object) -> None:
    """Refuse a `part` that cannot be what `name` must be.

    Raises:
        ConfigurationError: It cannot; the hint shows what can.
    """
    environment = part if isinstance(part, type) else type(part)
    if name == "rollout" and issubclass(environment, Environment):
        kind = environment.__name__
        raise ConfigurationError(
            f"rollout={kind} is an environment, which does not play itself", f"give Rollout({kind})"
        )
    if name == "reward":
        check_reward_part(name, part)
        return
    if isinstance(part, type):
        raise ConfigurationError(f"{name}={part.__name__} is a class, not an object", f"give {part.__name__}(…)")
    fits, what, hint = _RULES[name]
    if not fits(part):
        raise ConfigurationError(f"{name}={reprlib.repr(part)} is no {what}", hint)


def _is_rollout(part: Any) -> bool:
    """Of a plain function it is known whether it can be awaited; of any other callable only when it is called."""
    if not inspect.isfunction(part):
        return callable(part)
    # A decorator may be plain around what is async, or the other way round.
    return inspect.iscoroutinefunction(part) or inspect.iscoroutinefunction(inspect.unwrap(part))


def _has(method: str) -> Callable[[object], bool]:
    return lambda part: callable(getattr(part, method, None))


def _is(kind: type) -> Callable[[object], bool]:
    return lambda part: isinstance(part, kind)


_RULES: dict[str, tuple[Callable[[object], bool], str, str]] = {
    "backend": (_has("train"), "backend: it has no method train", "give a backend of ART, or TorchBackend()"),
    "rollout": (
        _is_rollout,
        "rollout that can be awaited",
        "give Rollout(MyEnvironment), or write it as `async def play(model, scenario)` that returns the trajectory",
    ),
    "schedule": (_is(ValidationSchedule), "validation schedule", "give one, such as Every(10) | AtEnd()"),
    "checkpoint_policy": (_is(CheckpointPolicy), "checkpoint policy", "give one, such as KeepBest() | KeepLatest()"),
    "filters": (_is(GroupFilter), "group filter", "give one, such as DropZeroVariance(); join several with |"),
    "tracker": (_has("handle"), "tracker: it has no method handle", "give one, such as ConsoleTracker()"),
    "settings": (_is(TrainerSettings), "TrainerSettings", "give TrainerSettings(…), whose arguments are the numbers"),
}
