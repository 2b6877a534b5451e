"""Checkpoints: the metric history, and policies that say which to keep."""

from __future__ import annotations

from artkit.checkpoints.decision import Decision, Verdict
from artkit.checkpoints.keep_best import KeepBest
from artkit.checkpoints.keep_latest import KeepAll, KeepEvery, KeepLatest
from artkit.checkpoints.metric_history import MetricHistory
from artkit.checkpoints.policy import AnyPolicy, CheckpointPolicy

__all__ = [
    "AnyPolicy",
    "CheckpointPolicy",
    "Decision",
    "KeepAll",
    "KeepBest",
    "KeepEvery",
    "KeepLatest",
    "MetricHistory",
    "Verdict",
]
