"""Tools: methods that the model may call."""

from __future__ import annotations

from artkit.environments.tools.environment import ToolEnvironment
from artkit.environments.tools.mark import tool
from artkit.environments.tools.result import ToolResult

__all__ = ["ToolEnvironment", "ToolResult", "tool"]
