"""Runs that are killed and resumed: what the benchmark does, for a few moments."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# The benchmark is a script, not a package: it is loaded from its place.
_spec = importlib.util.spec_from_file_location("kill_resume", Path(__file__).parents[2] / "benchmarks/kill_resume.py")
assert _spec
assert _spec.loader
sys.modules["kill_resume"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["kill_resume"])
