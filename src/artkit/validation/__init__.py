"""When to validate, and what a validation says: schedules and statistics, pure and printable."""

from __future__ import annotations

from artkit.validation.at import AtEnd, AtStart, AtSteps
from artkit.validation.compare import Comparison, compare
from artkit.validation.estimate import Estimate, estimate
from artkit.validation.every import Every, EveryEpoch, EveryMinutes
from artkit.validation.never import Never
from artkit.validation.pass_at_k import mean_pass_at_k, pass_at_k
from artkit.validation.progress import Progress
from artkit.validation.schedule import AnySchedule, ValidationSchedule

__all__ = [
    "AnySchedule",
    "AtEnd",
    "AtStart",
    "AtSteps",
    "Comparison",
    "Estimate",
    "Every",
    "EveryEpoch",
    "EveryMinutes",
    "Never",
    "Progress",
    "ValidationSchedule",
    "compare",
    "estimate",
    "mean_pass_at_k",
    "pass_at_k",
]
