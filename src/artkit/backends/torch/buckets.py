"""Few sizes in place of many."""

from __future__ import annotations

__all__ = ["bucket", "fine_bucket"]


def bucket(count: int, least: int) -> int:
    """The next power of two: of few sizes, few graphs are captured."""
    return max(least, 1 << (count - 1).bit_length())


def fine_bucket(count: int, least: int) -> int:
    """The next power of two, or three quarters of it: what is done for nothing is a quarter on average at most."""
    power = bucket(count, least)
    return power * 3 // 4 if power > least and count <= power * 3 // 4 else power
