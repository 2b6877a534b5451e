"""Backends: what artkit needs from an ART backend; `artkit.backends.torch` is the embedded one."""

from __future__ import annotations

from artkit.backends.closing import closing_backend
from artkit.backends.requirements import required_environment
from artkit.backends.usage import usage_example

__all__ = ["closing_backend", "required_environment", "usage_example"]
