"""Episodes: ART's trajectory with a memory, why it ended, what failed, and recordings of whole groups."""

from __future__ import annotations

from artkit.episodes.episode import Episode
from artkit.episodes.failure import FailureKind, FailureRecord
from artkit.episodes.failure_policy import FailurePolicy
from artkit.episodes.recording import read_groups, write_groups
from artkit.episodes.stop_reason import StopReason

__all__ = [
    "Episode",
    "FailureKind",
    "FailurePolicy",
    "FailureRecord",
    "StopReason",
    "read_groups",
    "write_groups",
]
