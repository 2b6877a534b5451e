"""When to validate: schedules, pure and printable."""

from __future__ import annotations

from artkit.validation.at import AtEnd, AtStart, AtSteps
from artkit.validation.every import Every, EveryEpoch
from artkit.validation.never import Never
from artkit.validation.progress import Progress
from artkit.validation.schedule import AnySchedule, ValidationSchedule

__all__ = [
    "AnySchedule",
    "AtEnd",
    "AtStart",
    "AtSteps",
    "Every",
    "EveryEpoch",
    "Never",
    "Progress",
    "ValidationSchedule",
]
