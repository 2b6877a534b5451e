"""From a finished run to its report."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artkit.backends import usage_example
from artkit.bridge import saved_steps
from artkit.checkpoints import AnyPolicy, KeepBest, MetricHistory
from artkit.training.parts import is_relative
from artkit.training.report import RunReport

if TYPE_CHECKING:
    from artkit.training.parts import Parts
    from artkit.training.run import Run

__all__ = ["summarize"]


async def summarize(parts: Parts, run: Run, reason: str) -> RunReport:
    """Return the report of a run whose backend is still open."""
    best_step, best_value = await _best(parts, run)
    return RunReport(
        reason=reason,
        steps=run.ledger.state.trained,
        best_step=best_step,
        best_value=best_value,
        final_inference_name=parts.model.get_inference_name(),
        usage=usage_example(parts.model, parts.backend, _first_messages(run)),
        history=parts.history_path,
        counts=dict(run.counts),
        wall_s=run.ledger.elapsed_s,
        best_metric=None if best_step is None else _ranked_by(parts),
    )


async def _best(parts: Parts, run: Run) -> tuple[int | None, float | None]:
    ranking = _ranking(parts)
    if ranking is None:
        return None, None
    since_byte = run.ledger.state.history_bytes
    history = MetricHistory.read(parts.history_path, metrics={ranking.metric}, since_byte=since_byte)
    values = history.values(ranking.metric, at=await _saved(parts))
    if not values:
        return None, None
    best = next(iter(ranking.rank(frozenset(values), history)), None)
    return best, None if best is None else values[best]


def _ranked_by(parts: Parts) -> str | None:
    ranking = _ranking(parts)
    if ranking is None:
        return None
    by = "" if ranking.column == ranking.metric else f" (ranked by {ranking.column})"
    return ranking.metric + by


async def _saved(parts: Parts) -> frozenset[int] | None:
    """Return which steps have a checkpoint, as the pruner sees it; None where that is not known."""
    try:
        return await saved_steps(parts.backend, parts.model)
    except Exception:  # noqa: BLE001  # a service that does not answer must not cost the report
        return None


def _ranking(parts: Parts) -> KeepBest | None:
    """Return what the policy ranks by; where it ranks by nothing, validation's absolute reward."""
    policy = parts.checkpoint_policy
    for part in policy.policies if isinstance(policy, AnyPolicy) else (policy,):
        if isinstance(part, KeepBest):
            return part
    absolute = bool(parts.validations) and not is_relative(parts.reward_of(parts.validations[0]))
    return KeepBest() if absolute else None


def _first_messages(run: Run) -> list[Mapping[str, Any]]:
    """Return what the first episode of the last batch began with: a question the model knows."""
    batch = run.ledger.state.batch
    recording = None if batch is None else run.rows.recording(batch.index)
    if recording is None or not recording.exists():
        return []
    # Line by line, for a recording may be large; the last one may be cut off.
    with recording.open(encoding="utf-8") as file:
        for line in file:
            try:
                turns = json.loads(line).get("episode", {}).get("turns", ())
            except ValueError:
                break
            if turns:
                return [turn["message"] for turn in itertools.takewhile(lambda turn: "message" in turn, turns)]
    return []
