"""Whether a training step broke the weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["not_finite"]

# "loss" and "grad" in any name: `policy_loss`, `loss/kl_div`, `grad_norm`; but not in "gloss" or "grade".
_TELLS = re.compile(r"(?<!g)loss|(?<![a-z])grad(?!e)", re.IGNORECASE)
# ART logs ratios under `loss/` too. They may overflow where the clipped loss does not. As words of their own: there is
# one in "generation", "calibration" and "duration" too.
_RATIO = re.compile(r"(?<![a-z])(?:ratio|fraction)s?(?![a-z])", re.IGNORECASE)


def not_finite(metrics: Mapping[str, Any]) -> str | None:
    """Return which losses and gradients of a training step are NaN or infinite, or None.

    Such a step has left weights that cannot be trusted. Other metrics may be NaN, for want of a value, and mean nothing
    by it.

    >>> not_finite({"loss/train": float("nan"), "loss/grad_norm": 0.5, "reward_gain": float("nan")})
    'loss/train is nan'
    >>> not_finite({"loss/train": 0.25, "loss/grad_norm": float("inf"), "policy_loss": float("nan")})
    'loss/grad_norm is inf, policy_loss is nan'

    Args:
        metrics: What the backend reported in its `TrainResult`, as it is: before what is not finite is dropped for the
            log. Values may be scalars of numpy or torch.
    """
    named = ((name, _number(value)) for name, value in metrics.items() if _tells(str(name)))
    return ", ".join(f"{name} is {value}" for name, value in named if not math.isfinite(value)) or None


def _tells(name: str) -> bool:
    return bool(_TELLS.search(name)) and not _RATIO.search(name)


def _number(value: Any) -> float:
    """Return `value` as a number; 0 where it is none or too large for a float."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError):  # an array of several
            return 0.0
    try:
        return float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return 0.0
