"""The scripted server in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from soaking.plan import Settings

__all__ = ["ServerProcess"]


class ServerProcess:
    """The scripted server in a process of its own, as a context manager; `DiaryBackend` takes it for a `ChatServer`."""

    is_running = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soaking.server", json.dumps(asdict(self._settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self

    @property
    def base_url(self) -> str:
        """Where it listens; waits until it does."""
        return str(self._where["base_url"])

    @property
    def api_key(self) -> str:
        """The one key it accepts."""
        return str(self._where["api_key"])

    @functools.cached_property
    def _where(self) -> dict[str, str]:
        where: dict[str, str] = self._read()
        return where

    def __exit__(self, *error: object) -> None:
        with self._process as process:
            process.kill()

    def ask(self) -> tuple[dict[tuple[int, int, int, int], int], int]:
        """Return how often each turn of each play was asked for, and how many requests there were."""
        print(file=self._process.stdin, flush=True)
        told = self._read()
        return {tuple(row[:-1]): row[-1] for row in told["asked"]}, told["requests"]

    def _read(self) -> Any:
        return json.loads(self._process.stdout.readline())  # type: ignore[union-attr]  # it is a pipe
