"""Worlds that people already have, as environments and scenarios; their packages are loaded when they are used."""

from __future__ import annotations

from artkit.environments.adapters.gymnasium import GymnasiumEnvironment, GymnasiumScenario, gymnasium_scenarios
from artkit.environments.adapters.reasoning_gym import (
    ReasoningGymScenario,
    reasoning_gym_scenarios,
    reasoning_gym_score,
)
from artkit.environments.adapters.textarena import TextArenaEnvironment, TextArenaScenario, textarena_scenarios

__all__ = [
    "GymnasiumEnvironment",
    "GymnasiumScenario",
    "ReasoningGymScenario",
    "TextArenaEnvironment",
    "TextArenaScenario",
    "gymnasium_scenarios",
    "reasoning_gym_scenarios",
    "reasoning_gym_score",
    "textarena_scenarios",
]
