"""Checking an environment: it is played many times over, and what it breaks is named."""

from __future__ import annotations

from artkit.environments.check.check import check_environment
from artkit.environments.check.finding import EnvironmentFinding, LikelyCause, Promise
from artkit.environments.check.replies import Reply
from artkit.environments.check.report import EnvironmentReport

__all__ = ["EnvironmentFinding", "EnvironmentReport", "LikelyCause", "Promise", "Reply", "check_environment"]
