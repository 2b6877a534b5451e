"""Environments: what a user subclasses, what a model's reply looks like to it, and the turn loop."""

from __future__ import annotations

from artkit.environments.action import Action, ToolCall
from artkit.environments.closing import run_then_close
from artkit.environments.environment import Environment
from artkit.environments.play import Actor, Play, play
from artkit.environments.step_result import StepResult

__all__ = ["Action", "Actor", "Environment", "Play", "StepResult", "ToolCall", "play", "run_then_close"]
