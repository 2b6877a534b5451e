"""What is refused when a schedule is made."""

from __future__ import annotations

from artkit.errors import ConfigurationError

__all__ = ["check_positive"]


def check_positive(what: str, value: object, hint: str) -> None:
    """Refuse a `value` that is no whole number of 1 or more; `what` says where it stands."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{what}: {value!r} is no positive whole number", hint)
