"""Environments: what a user subclasses, what a model's reply looks like to it, and the turn loop."""

from __future__ import annotations

from artkit.environments.action import Action, ToolCall
from artkit.environments.environment import Environment
from artkit.environments.play import Actor, Play, closing, play
from artkit.environments.step_result import StepResult

__all__ = ["Action", "Actor", "Environment", "Play", "StepResult", "ToolCall", "closing", "play"]
