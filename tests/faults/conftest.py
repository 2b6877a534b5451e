"""Runs that are killed and resumed, and rollouts in which all goes wrong: what the benchmarks do, for a few moments."""

from __future__ import annotations

import sys
from pathlib import Path

# The benchmarks are scripts, not a package: they are found as they find each other.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
