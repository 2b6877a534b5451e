"""The checkpoints of one model on disk: whole or not there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from artkit.errors import CheckpointError

__all__ = ["CheckpointStore", "reading"]

_MANIFEST = "checkpoint.json"


class CheckpointStore:
    """Directories `0000`, `0001`, … in ART's layout.

    A checkpoint is written beside its place, flushed to the disk and renamed, so what has a step's name is whole. Its
    manifest lists every file with its size: a directory that was damaged later, or that somebody else left, does not
    count as a checkpoint.

    Args:
        directory: `<path>/<project>/models/<storage name>/checkpoints`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob(".*.partial"):
            if leftover.is_dir():
                shutil.rmtree(leftover)

    def path(self, step: int) -> Path:
        """Where the checkpoint of `step` is, or would be."""
        return self._directory / f"{step:04d}"

    def steps(self) -> frozenset[int]:
        """The steps whose checkpoint is whole."""
        return frozenset(int(entry.name) for entry in self._entries() if self._is_whole(int(entry.name)))

    def write(self, step: int, facts: dict[str, Any], write_files: Callable[[Path], None]) -> None:
        """Write a checkpoint.

        Args:
            step: Its step; a damaged directory of that name is replaced, a whole one refused.
            facts: What its manifest says besides the files.
            write_files: Writes the files into the directory it is given.

        Raises:
            CheckpointError: There is a whole checkpoint of this step already.
        """
        target = self.path(step)
        if self._is_whole(step):
            raise CheckpointError(
                f"the checkpoint of step {step} exists already in {str(self._directory)!r}",
                "another process may be training this model: use another run_name",
            )
        partial = self._directory / f".{step:04d}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            write_files(partial)
            sizes = {file.name: file.stat().st_size for file in sorted(partial.iterdir())}
            (partial / _MANIFEST).write_text(json.dumps({**facts, "step": step, "files": sizes}), encoding="utf-8")
            _flush_all([*partial.iterdir(), partial])
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
            _flush(self._directory)
        except BaseException:
            for unfinished in (partial, target):
                shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def facts(self, step: int) -> dict[str, Any]:
        """What the manifest of a whole checkpoint says."""
        facts: dict[str, Any] = json.loads((self.path(step) / _MANIFEST).read_text(encoding="utf-8"))
        return facts

    def delete(self, *, keep: Collection[int]) -> None:
        """Delete every checkpoint, whole or damaged, but those of the steps in `keep`."""
        for entry in self._entries():
            if int(entry.name) not in keep:
                shutil.rmtree(entry)

    def _entries(self) -> list[Path]:
        return [entry for entry in self._directory.iterdir() if entry.name.isascii() and entry.name.isdigit()]

    def _is_whole(self, step: int) -> bool:
        directory = self.path(step)
        try:
            sizes = self.facts(step)["files"]
            return isinstance(sizes, dict) and all(
                (directory / name).stat().st_size == size for name, size in sizes.items()
            )
        except (OSError, ValueError, KeyError, TypeError):
            return False


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Say which checkpoint it is that cannot be read.

    Raises:
        CheckpointError: Something in it is missing or damaged.
    """
    try:
        yield
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the checkpoint {str(checkpoint)!r} cannot be read: {error!r}",
            "put its files back as they were, or delete the directory: a run goes on from the newest one that is whole",
        ) from error


def _flush_all(paths: Collection[Path]) -> None:
    # At once: a file system writes them in one go, and each would wait for the disk by itself.
    with ThreadPoolExecutor(len(paths)) as threads:
        for _ in threads.map(_flush, paths):
            pass


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
