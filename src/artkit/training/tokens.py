"""Tokens, as far as a server reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artkit.bridge.safe_values import safe_number

if TYPE_CHECKING:
    import art

__all__ = ["completion_tokens"]


def completion_tokens(trajectory: art.Trajectory) -> int:
    """Return how many tokens the model sampled; 0 where that is not reported, or is no number."""
    return int(safe_number(trajectory.metrics.get("completion_tokens")) or 0)
