"""What benchmarks that hold the embedded backend against other libraries share: processes, figures, models."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, cast

__all__ = ["Side", "find_smollm2", "machine", "save_micro", "spread"]


class Side:
    """A process that answers one line for each that it gets, and one before the first: when it can begin.

    Args:
        command: The script and its arguments.
    """

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_WAIT_POLICY": "passive",
                "HF_HUB_OFFLINE": "1",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
        )
        self._input, self._output = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)

    def write(self, line: str) -> None:
        """Send a line."""
        self._input.write(line + "\n")
        self._input.flush()

    def read(self) -> str:
        """Wait for a line."""
        line = self._output.readline()
        if not line:
            sys.exit(f"a side ended with status {self._process.wait()}")
        return line

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.communicate()


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {name: round(of(values), 4) for name, of in (("median", statistics.median), ("min", min), ("max", max))}


def machine(*packages: str) -> dict[str, Any]:
    """What it was measured on, with the versions of these packages; None for one that has no metadata."""
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
    }


def save_micro(directory: Path, seed: int) -> None:
    """Write the micro model as a checkpoint is written."""
    from artkit.backends.torch.base_model import MICRO, BaseModel, save_model

    base = BaseModel.open(MICRO)
    save_model(base.decoder(seed=seed), base.tokenizer, directory)


def find_smollm2(directory: str) -> Path:
    """The directory that was given, or the one in the cache, converted if need be; ends the program without either."""
    from artkit.backends.torch.smollm2 import smollm2_directory
    from artkit.errors import ConfigurationError

    if directory and not (Path(directory) / "config.json").exists():
        sys.exit(f"--smollm2 {directory!r} holds no model: leave the directory out to take it from the cache")
    try:
        return Path(directory) if directory else smollm2_directory()
    except ConfigurationError as error:
        sys.exit(str(error))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
