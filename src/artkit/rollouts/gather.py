"""Gathering groups of episodes: structured, in order, and honest about what was lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import art

from artkit.bridge import hide_secrets
from artkit.episodes import FailurePolicy
from artkit.errors import AllRolloutsFailedError, ConfigurationError, OutageError, RewardError
from artkit.rollouts.attempt import Attempting
from artkit.rollouts.capture_partial import CapturedRollout
from artkit.rollouts.failure_budget import FailureBudget
from artkit.rollouts.gathering import Gathering
from artkit.rollouts.task_rollout import rollouts_of
from artkit.transport import one_cleanup, sampling_session

if TYPE_CHECKING:
    from artkit.rollouts.events import GatherNotice, MemberFinished
    from artkit.rollouts.gathered import GatheredGroups
    from artkit.rollouts.scoring import GroupReward
    from artkit.scenarios import Scenario

__all__ = ["AnyRollout", "attempting", "gather_groups"]

AnyRollout: TypeAlias = Callable[..., Awaitable[art.Trajectory]]


async def gather_groups(
    rollout: AnyRollout,
    model: art.Model[Any, Any],
    scenarios: Sequence[Scenario],
    *,
    rollouts_per_group: int = 4,
    reward: GroupReward | None = None,
    max_exceptions: float | None = None,
    max_concurrent: int | None = None,
    timeout_s: float | None = None,
    on_event: Callable[[MemberFinished], None] | None = None,
    on_notice: Callable[[GatherNotice], None] | None = None,
) -> GatheredGroups:
    """Play every scenario `rollouts_per_group` times and return the groups, scored.

    Takes the place of `art.gather_trajectory_groups`. Cancelling it cancels every rollout at once; when it raises, no
    rollout runs on, but for one that goes on after it was cancelled: that is given up and named in the log. A second
    Ctrl-C, while environments are being closed, is answered in the log and changes nothing. While it plays, Python's
    garbage collector walks through old objects a tenth as often, unless the program has set thresholds of its own.

    Args:
        rollout: A `Rollout`, the result of `capture_partial`, or any `async (model, scenario) -> art.Trajectory`, which
            is wrapped as `capture_partial` does it.
        model: Any `art.Model` with an inference endpoint.
        scenarios: One group is gathered for each.
        rollouts_per_group: Members of each group.
        reward: Scores each group as soon as it is complete: a `RewardAdapter`, or any callable that fits ART's
            `after_each`. None leaves the rewards as the rollouts set them.
        max_exceptions: How many rollouts may fail before the gather stops; strictly between 0 and 1 a share of all.
            None stops only when every rollout failed.
        max_concurrent: Rollouts in flight at once, over all groups; the first groups come first. None means no limit.
        timeout_s: How long the rollouts may play, in seconds. Those that still do then end as `timeout` with the turns
            so far, and those whose turn has not come fail. Scoring keeps deadlines of its own. None means no limit.
        on_event: Told of each rollout as it ends; must return quickly.
        on_notice: Told when no rollout has ended and no group was scored for a minute, for two, four and so on
            (`GatherWaits`), and when the event loop was held up for more than a second (`LoopHeldUp`); must return
            quickly. None logs it.

    Raises:
        ConfigurationError: A count that is no whole number from 1, or a time that is not positive.
        AllRolloutsFailedError: Every rollout failed, or more than `max_exceptions`; names the first cause and counts.
        OutageError: A failure that no rollout can escape, such as a refused key.
        RewardError: The reward broke its contract, or an adapter with `on_error="raise"` could not score.

    The last three carry what was finished by then, as `error.gathered`; so does the `CancelledError` of a gather that
    was cancelled.
    """
    for name, count in {"rollouts_per_group": rollouts_per_group, "max_concurrent": max_concurrent}.items():
        is_unlimited = count is None and name == "max_concurrent"
        if not is_unlimited and not (isinstance(count, Integral) and count >= 1):
            raise ConfigurationError(f"{name}={count!r} is no whole number from 1", "give 1 or more")
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigurationError(f"timeout_s={timeout_s!r} is not positive", "give more than 0, or None for no limit")
    gathering = Gathering(
        rollout=attempting(rollout),
        model=model,
        scenarios=scenarios,
        rollouts_per_group=rollouts_per_group,
        reward=reward,
        budget=FailureBudget(rollouts_per_group * len(scenarios), max_exceptions),
        max_concurrent=max_concurrent,
        timeout_s=timeout_s,
        on_event=on_event,
        on_notice=on_notice,
    )
    try:
        await one_cleanup(lambda: gathering.run(_session(rollout, model)))
    except (AllRolloutsFailedError, OutageError, RewardError) as error:
        error.gathered = gathering.result()
        hide_secrets(error)  # the causes in its chain are not of artkit's making
        raise
    except (asyncio.CancelledError, KeyboardInterrupt) as error:
        vars(error)["gathered"] = gathering.result()
        raise
    return gathering.result()


def attempting(rollout: AnyRollout) -> Attempting:
    """Return `rollout` as one that can say what a failure was."""
    if isinstance(rollout, Attempting):
        return rollout
    return CapturedRollout(rollout, FailurePolicy(), takes_episode=False)


def _session(rollout: AnyRollout, model: art.Model[Any, Any]) -> contextlib.AbstractAsyncContextManager[Any]:
    # One client for all rollouts of the gather. Other callables bring their own.
    return sampling_session(model) if rollouts_of(rollout) else contextlib.nullcontext()
