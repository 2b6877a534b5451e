"""One backend per model directory."""

from __future__ import annotations

import os
from pathlib import Path

from artkit.errors import BackendError

try:
    import fcntl
except ImportError:  # Windows has no flock; there nothing is refused.
    fcntl = None  # type: ignore[assignment]

__all__ = ["DirectoryLock"]

_NAME = ".torch-backend.lock"


class DirectoryLock:
    """Holds a directory until `release`, or until the process ends, however it ends.

    Args:
        directory: It is made if it is not there.

    Raises:
        BackendError: Somebody else holds it.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptor: int | None = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise BackendError(
                f"{str(directory)!r} is in use by another TorchBackend, in this process or another",
                "close that backend, or train under another run_name (or name)",
            ) from error

    def release(self) -> None:
        """Let go of the directory. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
