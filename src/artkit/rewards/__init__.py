"""Rewards: what an episode is worth, and which groups are worth training on."""

from __future__ import annotations

from artkit.rewards.adapter import Answer, OnError, RewardAdapter
from artkit.rewards.drop_zero_variance import DropZeroVariance
from artkit.rewards.environment_reward import EnvironmentReward
from artkit.rewards.group_filter import AnyFilter, FilterResult, GroupFilter
from artkit.rewards.programmatic_reward import Grader, ProgrammaticReward
from artkit.rewards.score import Score

__all__ = [
    "Answer",
    "AnyFilter",
    "DropZeroVariance",
    "EnvironmentReward",
    "FilterResult",
    "Grader",
    "GroupFilter",
    "OnError",
    "ProgrammaticReward",
    "RewardAdapter",
    "Score",
]
