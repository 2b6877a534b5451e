"""The reward doctor: does a reward reward what it should?"""

from __future__ import annotations

from artkit.rewards.doctor.diagnose import diagnose_reward
from artkit.rewards.doctor.diagnosis import RewardDiagnosis
from artkit.rewards.doctor.figures import RewardFigures, reward_figures

__all__ = ["RewardDiagnosis", "RewardFigures", "diagnose_reward", "reward_figures"]
