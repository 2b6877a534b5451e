"""The trajectory that a rollout was at when it failed."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

import art

from artkit.bridge import error_chain, model_turns
from artkit.episodes import Episode

__all__ = ["unfinished_trajectory"]


def unfinished_trajectory(
    error: BaseException, entered: Iterable[art.Trajectory] = (), *, began_s: float
) -> art.Trajectory | None:
    """Return the trajectory that holds the most replies, of those that a rollout was at when it failed; None without.

    There it is, whether the rollout wrote it by hand or ART captured it (`art.capture_auto_trajectory`,
    `with art.Trajectory()`), and whatever client asked the model: among the variables of the calls that `error` ended.

    Args:
        error: What the rollout failed with; its causes are looked at too, and what it was raised in place of.
        entered: What `artkit.bridge.entered_trajectories` noted: a trajectory in a `with` needs no variable.
        began_s: When the rollout began, as `time.time()`. A trajectory made before is not its own.
    """
    of_calls = (
        value
        for link in error_chain(error, with_suppressed=True)
        for frame, _ in traceback.walk_tb(link.__traceback__)
        for value in frame.f_locals.values()
    )
    held = [
        value
        for value in (*of_calls, *entered)
        # A subclass of the user's may hold its turns anywhere.
        if (type(value) is art.Trajectory or isinstance(value, Episode)) and value.start_time.timestamp() >= began_s
    ]
    # Where a reply was written down as a message, it can only be counted as one.
    return max(held, key=lambda one: (model_turns(one), len(one.messages_and_choices)), default=None)
