"""Judges: models that are asked for a verdict in words."""

from __future__ import annotations

from artkit.rewards.judges.endpoint_judge import EndpointJudge
from artkit.rewards.judges.judge import Judge, JudgeReply, Messages, judge_name, read_reply
from artkit.rewards.judges.litellm_judge import LiteLLMJudge

__all__ = ["EndpointJudge", "Judge", "JudgeReply", "LiteLLMJudge", "Messages", "judge_name", "read_reply"]
