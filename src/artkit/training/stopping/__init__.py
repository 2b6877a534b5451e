"""When a run stops before its data ends: conditions, pure and printable."""

from __future__ import annotations

from artkit.training.stopping.max_cost import MaxCost
from artkit.training.stopping.max_minutes import MaxMinutes
from artkit.training.stopping.no_improvement import NoImprovement
from artkit.training.stopping.not_finite import not_finite
from artkit.training.stopping.nothing_to_learn import NothingToLearn
from artkit.training.stopping.reward_collapse import RewardCollapse
from artkit.training.stopping.stop_condition import AnyCondition, StopCondition
from artkit.training.stopping.stop_function import StopFunction, as_condition
from artkit.training.stopping.target_reached import TargetReached

__all__ = [
    "AnyCondition",
    "MaxCost",
    "MaxMinutes",
    "NoImprovement",
    "NothingToLearn",
    "RewardCollapse",
    "StopCondition",
    "StopFunction",
    "TargetReached",
    "as_condition",
    "not_finite",
]
