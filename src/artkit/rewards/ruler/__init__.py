"""RULER: one judge compares the members of a group."""

from __future__ import annotations

from artkit.rewards.ruler.counts import JudgeCounts
from artkit.rewards.ruler.reward import RulerReward

__all__ = ["JudgeCounts", "RulerReward"]
