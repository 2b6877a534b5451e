"""Training: every block in one run, resumable at any moment."""

from __future__ import annotations

from artkit.training.plan import Plan
from artkit.training.pruning import prune_checkpoints
from artkit.training.report import RunReport
from artkit.training.settings import TrainerSettings
from artkit.training.stopping import StopCondition
from artkit.training.trainer import Trainer
from artkit.training.validating import ValidationResult
from artkit.training.validation import Validation

__all__ = [
    "Plan",
    "RunReport",
    "StopCondition",
    "Trainer",
    "TrainerSettings",
    "Validation",
    "ValidationResult",
    "prune_checkpoints",
]
