"""The report: how a run ended, and what it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RunReport"]


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """How a run ended; printing it gives a short summary.

    Attributes:
        reason: Why it ended, in words.
        steps: Training steps of the whole run, earlier sessions included.
        best_step: The step whose checkpoint ranks best; None where nothing ranked.
        best_value: The metric's value there.
        best_metric: Which metric checkpoints were ranked by; None where nothing ranked.
        final_inference_name: What the last checkpoint is served as.
        usage: A complete script that asks the trained model something; it opens the backend again.
        history: ART's history of the run, one JSON line per row.
        counts: What became of the rollouts and groups of this session, summed.
        wall_s: Seconds the run took, earlier sessions included.
    """

    reason: str
    steps: int
    best_step: int | None
    best_value: float | None
    final_inference_name: str
    usage: str
    history: Path
    counts: Mapping[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    best_metric: str | None = None

    def __str__(self) -> str:
        best = ""
        if self.best_step is not None:
            best = f"\nbest: step {self.best_step} with {self.best_metric or 'a metric'} {self.best_value:.4g}"
        return (
            f"{self.reason} ({self.steps} steps, {self.wall_s:.0f} s){best}{self._losses()}\n"
            f"model: {self.final_inference_name}\nhistory: {self.history}\n\n{self.usage}"
        )

    def _losses(self) -> str:
        """Say what was lost in this session; "" where nothing was."""
        parts = [
            f"{int(count)} {how} ({name.removeprefix(prefix)})"
            for how, prefix in (("lost", "rollouts_lost_"), ("failed", "rollouts_failed_"))
            for name, count in sorted(self.counts.items())
            if name.startswith(prefix) and count
        ]
        if not parts:
            return ""
        return f"\nrollouts of this session: {int(self.counts.get('rollouts_started', 0))}, {', '.join(parts)}"
