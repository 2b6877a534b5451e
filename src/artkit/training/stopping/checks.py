"""What is refused when a condition is made."""

from __future__ import annotations

import math

from artkit.errors import ConfigurationError

__all__ = ["check_count", "check_metric", "check_mode", "check_number", "check_positive"]


def check_count(condition: str, name: str, value: object, *, least: int = 1) -> None:
    """Refuse a `value` that is no whole number of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{condition}({name}={value!r}) is no whole number of {least} or more"
        raise ConfigurationError(msg, f"{condition}({name}={least}) is the least that works")


def check_number(condition: str, name: str, value: object, hint: str) -> None:
    """Refuse a `value` that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{condition}({name}={value!r}) is no finite number", hint)


def check_positive(condition: str, name: str, value: float, *, least: float) -> None:
    """Refuse a `value` that is no finite number above 0; `least` is the smallest that makes sense."""
    hint = f"any number above 0 works, such as {condition}({name}={least:g})"
    check_number(condition, name, value, hint)
    if value <= 0:
        raise ConfigurationError(f"{condition}({name}={value!r}) stops before anything is done", hint)


def check_metric(condition: str, metric: object) -> None:
    """Refuse a `metric` that is no name."""
    if not isinstance(metric, str) or not metric:
        msg = f"{condition}(metric={metric!r}) names no metric"
        raise ConfigurationError(msg, "the reward of the first validation is 'val/reward', of training 'train/reward'")


def check_mode(condition: str, mode: object) -> None:
    """Refuse a `mode` that is neither "max" nor "min"."""
    if mode not in ("max", "min"):
        msg = f"{condition}(mode={mode!r}) is unknown"
        raise ConfigurationError(msg, "mode='max' where more is better, mode='min' where less is")
