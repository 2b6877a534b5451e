"""What the numbers among a reward's settings must be."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard

from artkit.errors import ConfigurationError

__all__ = ["check_count", "check_positive", "is_number"]


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number; a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_positive(name: str, value: object, hint: str) -> None:
    """Refuse a `value` that is no positive finite number, such as "5", 0 or infinity.

    Raises:
        ConfigurationError: It is none; `hint` says what to give.
    """
    if not (is_number(value) and value > 0):
        raise ConfigurationError(f"{name}={value!r} is no positive finite number", hint)


def check_count(name: str, value: object, hint: str, *, least: int = 0) -> None:
    """Refuse a `value` that is no int of `least` or more, such as "5", 1.5 or -1.

    Raises:
        ConfigurationError: It is none; `hint` says what to give.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ConfigurationError(f"{name}={value!r} is no int of {least} or more", hint)
