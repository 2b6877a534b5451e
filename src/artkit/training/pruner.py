"""The pruner: the checkpoint policy, acted on after every step of a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from artkit.checkpoints import KeepAll, MetricHistory
from artkit.errors import CheckpointError
from artkit.tracking import CheckpointsPruned, Warned
from artkit.training.pruning import prune

if TYPE_CHECKING:
    from collections.abc import Callable

    from artkit.training.broadcast import Broadcast
    from artkit.training.parts import Parts
    from artkit.training.run_state import RunState

__all__ = ["Pruner"]


class Pruner:
    """Prunes the checkpoints of a run, and says once where it cannot.

    Args:
        parts: What the run is made of.
        tell: Who is told.
        sampled_from: Says which steps rollouts that are being played may ask, given the newest.
    """

    def __init__(self, parts: Parts, tell: Broadcast, sampled_from: Callable[[int], frozenset[int]]) -> None:
        self._parts = parts
        self._sampled_from = sampled_from
        self._tell = tell
        self._history = MetricHistory()
        self._is_refused = False
        self._named_missing = False

    async def __call__(self, state: RunState) -> None:
        """Delete what the policy does not keep; the history and its metrics are on the disk by now."""
        parts = self._parts
        policy = parts.checkpoint_policy
        # Weights that a broken loss has left are the newest, and no reason to delete sound ones.
        if self._is_refused or isinstance(policy, KeepAll) or state.not_finite:
            return
        try:
            await asyncio.to_thread(
                self._history.read_on, parts.history_path, metrics=policy.ranks_by, since_byte=state.history_bytes
            )
            # An earlier run may have been validated on another set: its checkpoints and its values stay out of this.
            has_earlier_run = state.history_bytes > 0
            pruned = await prune(
                parts.model,
                policy,
                self._history,
                in_use=parts.in_use(state.step) | self._sampled_from(state.step) | state.unranked,
                since_step=state.initial_step + 1 if has_earlier_run else 0,
            )
        except CheckpointError as error:
            self._is_refused = True
            self._tell(Warned(text=f"checkpoints are not pruned: {error}"))
            return
        except Exception as error:  # noqa: BLE001  # a service or a disk for a moment: a checkpoint too many costs little
            self._tell(
                Warned(
                    text=f"checkpoints were not pruned after step {state.step}: {type(error).__name__}: {error}; tried "
                    "again after the next step"
                )
            )
            return
        if deleted := sorted(pruned.why.keys() - pruned.keep):
            self._tell(
                CheckpointsPruned(
                    step=state.step,
                    kept={step: pruned.why[step] for step in sorted(pruned.keep)},
                    deleted=tuple(deleted),
                    why_deleted={step: pruned.why[step] for step in deleted},
                )
            )
        self._name_missing(state)

    def _name_missing(self, state: RunState) -> None:
        """Say once that a metric which checkpoints are ranked by was not logged although it was validated."""
        if not state.validated or self._named_missing:
            return
        policy = self._parts.checkpoint_policy
        missing = [metric for metric in sorted(policy.ranks_by) if metric not in self._history]
        if not missing:
            return
        self._named_missing = True
        logged = ", ".join(sorted(name for name in self._history.metrics() if name.startswith("val/")))
        self._tell(
            Warned(
                text=f"{policy!r} ranks by {', '.join(missing)}, which was not logged, so it deletes nothing; "
                f"validation logged {logged or 'nothing'}"
            )
        )
