"""Trackers: where a run shows what it does."""

from artkit.tracking.console import ConsoleTracker
from artkit.tracking.events import (
    CheckpointsPruned,
    LoopBlocked,
    RolloutFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    TrackingEvent,
    ValidationFinished,
    Waiting,
    Warned,
)
from artkit.tracking.jsonl import JsonlTracker
from artkit.tracking.tensorboard import TensorBoardTracker
from artkit.tracking.tracker import Tracker

__all__ = [
    "CheckpointsPruned",
    "ConsoleTracker",
    "JsonlTracker",
    "LoopBlocked",
    "RolloutFinished",
    "RunFinished",
    "RunStarted",
    "StepFinished",
    "TensorBoardTracker",
    "Tracker",
    "TrackingEvent",
    "ValidationFinished",
    "Waiting",
    "Warned",
]
