"""What is refused when a schedule, a policy or a condition is made."""

from __future__ import annotations

import math

from artkit.errors import ConfigurationError

__all__ = ["check_count", "check_metric", "check_mode", "check_number", "check_positive"]


def check_count(call: str, name: str, value: object, *, least: int = 1, hint: str | None = None) -> None:
    """Refuse a `value` that is no whole number of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{call}({name}={value!r}) is no whole number of {least} or more"
        raise ConfigurationError(msg, hint or f"{call}({name}={least}) is the least that works")


def check_number(call: str, name: str, value: object, hint: str) -> None:
    """Refuse a `value` that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{call}({name}={value!r}) is no finite number", hint)


def check_positive(call: str, name: str, value: object, hint: str) -> None:
    """Refuse a `value` that is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"{call}({name}={value!r}) is no positive finite number", hint)


def check_metric(call: str, metric: object) -> None:
    """Refuse a `metric` that is no name."""
    if not isinstance(metric, str) or not metric:
        msg = f"{call}(metric={metric!r}) names no metric"
        raise ConfigurationError(msg, "the reward of the first validation is 'val/reward', of training 'train/reward'")


def check_mode(call: str, mode: object) -> None:
    """Refuse a `mode` that is neither "max" nor "min"."""
    if mode not in ("max", "min"):
        msg = f"{call}(mode={mode!r}) is unknown"
        raise ConfigurationError(msg, "mode='max' where more is better, mode='min' where less is")
