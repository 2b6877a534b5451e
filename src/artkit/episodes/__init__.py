"""Episodes: ART's trajectory with a memory, why it ended, what failed, and recordings of whole groups."""

from __future__ import annotations

from artkit.episodes.episode import Episode
from artkit.episodes.failure import FailureKind, FailureRecord
from artkit.episodes.failure_policy import FailurePolicy
from artkit.episodes.failure_rule import FailureRule
from artkit.episodes.recorder import Recorder, record
from artkit.episodes.recording import read_groups, write_groups
from artkit.episodes.recordings import Recordings, iter_episodes, load_groups
from artkit.episodes.stop_reason import StopReason

__all__ = [
    "Episode",
    "FailureKind",
    "FailurePolicy",
    "FailureRecord",
    "FailureRule",
    "Recorder",
    "Recordings",
    "StopReason",
    "iter_episodes",
    "load_groups",
    "read_groups",
    "record",
    "write_groups",
]
