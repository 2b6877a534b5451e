"""What the trainer makes of its arguments: one becomes several, and what was left out gets its default."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from artkit.checkpoints import KeepAll, KeepBest, KeepLatest
from artkit.errors import ConfigurationError
from artkit.tracking import ConsoleTracker
from artkit.training.parts import is_relative
from artkit.training.stopping import AnyCondition, RewardCollapse, StopCondition, as_condition
from artkit.training.type_checks import check_type
from artkit.training.validation import Validation
from artkit.validation import Never

if TYPE_CHECKING:
    from artkit.checkpoints import CheckpointPolicy
    from artkit.rollouts import GroupReward
    from artkit.tracking import Tracker
    from artkit.training.feed import Feed
    from artkit.training.stopping import StopFunction

__all__ = ["as_conditions", "as_policy", "as_trackers", "as_validations"]


def as_validations(validation: Validation | Sequence[Validation] | None) -> tuple[Validation, ...]:
    """Return one, several or no validation as a tuple.

    Raises:
        ConfigurationError: Something among them is no validation.
    """
    if validation is None:
        return ()
    if isinstance(validation, Validation):
        return (validation,)
    hint = "give Validation(scenarios), or several in a list"
    if not isinstance(validation, Sequence) or isinstance(validation, str | bytes):
        raise ConfigurationError(f"validation={reprlib.repr(validation)} is no Validation", hint)
    for item in validation:
        if not isinstance(item, Validation):
            raise ConfigurationError(f"validation holds items of type {type(item).__name__}, not Validation", hint)
    return tuple(validation)


def as_trackers(given: Sequence[Tracker] | None) -> tuple[Tracker, ...]:
    """Return the trackers; None is a `ConsoleTracker()`.

    Raises:
        ConfigurationError: They are no sequence, or one is no tracker.
    """
    if given is None:
        return (ConsoleTracker(),)
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        shown = reprlib.repr(given)
        raise ConfigurationError(f"trackers={shown} is no sequence of trackers", "put them into a list, also one alone")
    for tracker in given:
        check_type("tracker", tracker)
    return tuple(given)


def as_policy(
    given: CheckpointPolicy | None, validations: tuple[Validation, ...], reward: GroupReward
) -> tuple[CheckpointPolicy, str]:
    """Return the checkpoint policy, and why it is this one."""
    if given is not None:
        return given, "as given"
    if not validations or isinstance(validations[0].schedule, Never):
        return KeepAll(), "since nothing is validated: without a metric nothing is deleted"
    if is_relative(validations[0].reward or reward):
        return KeepLatest(count=5), "since a relative reward says which sibling was better, not which step is"
    return KeepBest() | KeepLatest(), "since validation has an absolute reward"


def as_conditions(given: StopCondition | StopFunction | None, feed: Feed, reward: GroupReward) -> StopCondition | None:
    """Return when the run stops before its data ends: as given, and when what was learned is lost.

    A `RewardCollapse` of the user's own takes the place of ours. There is none for a relative reward, which has no
    level that could fall, nor for data in an order of its own: the hard part after the easy one looks like a collapse.

    Raises:
        ConfigurationError: `given` is no stop condition.
    """
    asked = None if given is None else as_condition(given)
    parts = asked.conditions if isinstance(asked, AnyCondition) else (asked,)
    has_own = any(isinstance(part, RewardCollapse) for part in parts)
    if has_own or is_relative(reward) or not (feed.settings.stop_on_collapse and feed.is_shuffled):
        return asked
    return RewardCollapse() if asked is None else RewardCollapse() | asked
