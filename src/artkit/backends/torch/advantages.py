"""How much better each member of a group did than its siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["group_advantages"]

_EPSILON = 1e-6


def group_advantages(rewards: Sequence[float], *, scale: bool) -> list[float]:
    """The advantage of each member: `reward - mean`, divided by `std + 1e-6` when `scale` is set.

    The standard deviation is that of the population. A group whose members are equal, or that has one member, has
    advantages of zero.

    Source: GRPO (arXiv 2402.03300), section 4.1.2; without the division: Dr. GRPO (arXiv 2503.20783), section 3.2.

    >>> group_advantages([1.0, 0.0, 0.0, 1.0], scale=False)
    [0.5, -0.5, -0.5, 0.5]
    >>> group_advantages([0.7], scale=True)
    [0.0]

    Args:
        rewards: One finite number per member.
        scale: Whether to divide by the spread.
    """
    if not rewards:
        return []
    mean = math.fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if len(set(rewards)) == 1:
        return [0.0] * len(centred)
    if not scale:
        return centred
    spread = math.sqrt(math.fsum(value**2 for value in centred) / len(centred))
    return [value / (spread + _EPSILON) for value in centred]
