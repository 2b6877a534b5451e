"""Training: every block in one run, resumable at any moment."""

from __future__ import annotations

from artkit.training.load_checkpoint import Checkpoint, load_checkpoint
from artkit.training.plan import Plan
from artkit.training.pruning import prune_checkpoints
from artkit.training.report import RunReport
from artkit.training.settings import TrainerSettings
from artkit.training.stopping import (
    MaxCost,
    MaxMinutes,
    NoImprovement,
    NothingToLearn,
    RewardCollapse,
    StopCondition,
    TargetReached,
)
from artkit.training.trainer import Trainer
from artkit.training.validation import Validation
from artkit.training.validation_result import ValidationResult

__all__ = [
    "Checkpoint",
    "MaxCost",
    "MaxMinutes",
    "NoImprovement",
    "NothingToLearn",
    "Plan",
    "RewardCollapse",
    "RunReport",
    "StopCondition",
    "TargetReached",
    "Trainer",
    "TrainerSettings",
    "Validation",
    "ValidationResult",
    "load_checkpoint",
    "prune_checkpoints",
]
