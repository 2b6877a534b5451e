"""Environments: what a user subclasses, what a model's reply looks like to it, and the turn loop."""

from __future__ import annotations

from artkit.environments.action import Action, ToolCall
from artkit.environments.check import (
    EnvironmentFinding,
    EnvironmentReport,
    LikelyCause,
    Promise,
    check_environment,
)
from artkit.environments.closing import run_then_close
from artkit.environments.environment import Environment
from artkit.environments.play import Actor, Play, play
from artkit.environments.replay import replay
from artkit.environments.replay_report import Divergence, ReplayReport, SkippedEpisode
from artkit.environments.scenario_type import scenario_type_of
from artkit.environments.single_turn import SingleTurnEnvironment
from artkit.environments.step_result import StepResult
from artkit.environments.tools import ToolEnvironment, ToolResult, tool

__all__ = [
    "Action",
    "Actor",
    "Divergence",
    "Environment",
    "EnvironmentFinding",
    "EnvironmentReport",
    "LikelyCause",
    "Play",
    "Promise",
    "ReplayReport",
    "SingleTurnEnvironment",
    "SkippedEpisode",
    "StepResult",
    "ToolCall",
    "ToolEnvironment",
    "ToolResult",
    "check_environment",
    "play",
    "replay",
    "run_then_close",
    "scenario_type_of",
    "tool",
]
