"""Rollouts: a model as the actor, partial episodes kept, groups gathered in order."""

from __future__ import annotations

from artkit.rollouts.attempt import Attempting, Failed
from artkit.rollouts.capture_partial import CapturedRollout, capture_partial
from artkit.rollouts.counts import GatherCounts
from artkit.rollouts.events import GatherNotice, GatherWaits, LoopHeldUp, MemberFinished
from artkit.rollouts.gather import AnyRollout, attempting, gather_groups
from artkit.rollouts.gathered import GatheredGroups
from artkit.rollouts.remembering import RememberingRollout
from artkit.rollouts.rescore import RescoredGroups, rescore
from artkit.rollouts.rollout import Rollout
from artkit.rollouts.sampling import Limits, Sampling
from artkit.rollouts.scoring import GroupReward
from artkit.rollouts.task_rollout import TaskRollout, rollouts_of, takes_sampling, with_sampling

__all__ = [
    "AnyRollout",
    "Attempting",
    "CapturedRollout",
    "Failed",
    "GatherCounts",
    "GatherNotice",
    "GatherWaits",
    "GatheredGroups",
    "GroupReward",
    "Limits",
    "LoopHeldUp",
    "MemberFinished",
    "RememberingRollout",
    "RescoredGroups",
    "Rollout",
    "Sampling",
    "TaskRollout",
    "attempting",
    "capture_partial",
    "gather_groups",
    "rescore",
    "rollouts_of",
    "takes_sampling",
    "with_sampling",
]
