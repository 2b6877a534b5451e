"""What is refused when a policy is made."""

from __future__ import annotations

from artkit.errors import ConfigurationError

__all__ = ["check_positive"]


def check_positive(policy: str, name: str, value: object) -> None:
    """Refuse a `value` that is no whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{policy}({name}={value!r}) is no positive whole number"
        raise ConfigurationError(msg, f"{policy}({name}=1) is the least that works")
