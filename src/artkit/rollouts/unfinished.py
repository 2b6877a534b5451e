"""The trajectory that a rollout was at when it failed."""

from __future__ import annotations

import traceback

import art

from artkit.bridge import error_chain, model_turns
from artkit.episodes import Episode

__all__ = ["unfinished_trajectory"]


def unfinished_trajectory(error: BaseException, *, began_s: float) -> art.Trajectory | None:
    """Return the trajectory with the most replies among the variables of the calls that `error` ended; None without.

    There it is, whether the rollout wrote it by hand or ART captured it (`art.capture_auto_trajectory`,
    `with art.Trajectory() as …`), and whatever client asked the model.

    Args:
        error: What the rollout failed with; its causes are looked at too.
        began_s: When the rollout began, as `time.time()`. A trajectory made before is not its own.
    """
    held = [
        value
        for link in error_chain(error)
        for frame, _ in traceback.walk_tb(link.__traceback__)
        for value in frame.f_locals.values()
        # A subclass of the user's may hold its turns anywhere.
        if (type(value) is art.Trajectory or isinstance(value, Episode))
        and value.start_time.timestamp() >= began_s
        and model_turns(value)
    ]
    return max(held, key=model_turns, default=None)
