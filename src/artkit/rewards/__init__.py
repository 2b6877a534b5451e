"""Rewards: what an episode is worth, and which groups are worth training on."""

from __future__ import annotations

from artkit.rewards.adapter import Answer, OnError, RewardAdapter
from artkit.rewards.doctor import RewardDiagnosis, RewardFigures, diagnose_reward, reward_figures
from artkit.rewards.drop_failures import DropFailures
from artkit.rewards.drop_zero_variance import DropZeroVariance
from artkit.rewards.environment_reward import EnvironmentReward
from artkit.rewards.graders import (
    TextGrader,
    answer_text,
    boxed_math,
    choice_letter,
    exact_match,
    json_schema,
    last_boxed,
    last_number,
    normalised,
    normalised_match,
    number_match,
    regex_match,
    reply_text,
    scenario_label,
    token_f1,
)
from artkit.rewards.group_filter import AnyFilter, FilterResult, GroupFilter
from artkit.rewards.judges import EndpointJudge, Judge, JudgeReply, LiteLLMJudge
from artkit.rewards.lost_members import lost_members, note_lost
from artkit.rewards.min_members import MinMembers
from artkit.rewards.programmatic_reward import Grader, ProgrammaticReward
from artkit.rewards.reward_check import check_adapter, check_reward_part
from artkit.rewards.ruler import JudgeCounts, RulerReward
from artkit.rewards.score import Score
from artkit.rewards.weighted_reward import WeightedReward

__all__ = [
    "Answer",
    "AnyFilter",
    "DropFailures",
    "DropZeroVariance",
    "EndpointJudge",
    "EnvironmentReward",
    "FilterResult",
    "Grader",
    "GroupFilter",
    "Judge",
    "JudgeCounts",
    "JudgeReply",
    "LiteLLMJudge",
    "MinMembers",
    "OnError",
    "ProgrammaticReward",
    "RewardAdapter",
    "RewardDiagnosis",
    "RewardFigures",
    "RulerReward",
    "Score",
    "TextGrader",
    "WeightedReward",
    "answer_text",
    "boxed_math",
    "check_adapter",
    "check_reward_part",
    "choice_letter",
    "diagnose_reward",
    "exact_match",
    "json_schema",
    "last_boxed",
    "last_number",
    "lost_members",
    "normalised",
    "normalised_match",
    "note_lost",
    "number_match",
    "regex_match",
    "reply_text",
    "reward_figures",
    "scenario_label",
    "token_f1",
]
