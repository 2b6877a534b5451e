"""The lock: one process per run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from artkit.errors import ConfigurationError, ResumeError

__all__ = ["hold_run"]


@contextlib.contextmanager
def hold_run(directory: Path) -> Iterator[None]:
    """Hold the run that keeps its files in `directory` for this process: two would train each batch twice.

    The lock is the operating system's: it ends with the process, however that ends.

    Raises:
        ResumeError: Another process holds it.
        ConfigurationError: The directory cannot be made or written.
    """
    lock = FileLock(directory / "lock", timeout=0, mode=0o600)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ResumeError(
            f"another process is running this run ({directory})",
            "wait for it or stop it; or give this model another run_name",
        ) from None
    except OSError as error:
        raise ConfigurationError(
            f"the run cannot keep its files in {directory}: {error}", "give the model a base_path that can be written"
        ) from error
    try:
        yield
    finally:
        lock.release()
