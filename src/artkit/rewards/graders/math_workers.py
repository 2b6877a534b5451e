"""Comparing mathematical expressions in processes of their own, which can be killed."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from artkit.errors import RewardError

__all__ = ["MathWorkers"]

_SCRIPT = Path(__file__).with_name("math_worker.py")
_START_TIMEOUT_S = 120.0


class MathWorkers:
    """Keeps a few processes of `math_worker` and hands each one expression at a time; usable from any thread.

    They start when they are first needed, and end with the program.

    Args:
        size: How many processes there may be.
    """

    def __init__(self, size: int | None = None) -> None:
        self._slots = threading.BoundedSemaphore(size or min(4, os.cpu_count() or 1))
        self._idle: list[subprocess.Popen[str]] = []
        atexit.register(self.close)

    def is_equal(self, expected: str, answer: str, *, timeout_s: float) -> bool:
        """Whether the two LaTeX expressions say the same.

        Raises:
            RewardError: It took longer than `timeout_s`, or could not be found out.
        """
        with self._slots:
            process = self._take()
            request = {"expected": expected, "answer": answer, "timeout_s": timeout_s}
            reply = _ask(process, request, timeout_s=timeout_s)
            if reply is None:
                msg = f"comparing {answer[:200]!r} with {expected!r} took longer than timeout_s={timeout_s:g}"
                raise RewardError(msg, "raise timeout_s if the expression is one that should be worked out")
            self._idle.append(process)
        if "error" in reply:
            msg = f"{answer[:200]!r} could not be compared with {expected!r}: {reply['error']}"
            raise RewardError(msg, "write what is expected as LaTeX, words inside \\text{}")
        return bool(reply["is_equal"])

    def _take(self) -> subprocess.Popen[str]:
        while self._idle:
            process = self._idle.pop()
            if process.poll() is None:
                return process
            _end(process)
        return _start()

    def close(self) -> None:
        """End the processes that wait for work."""
        while self._idle:
            _end(self._idle.pop())


def _start() -> subprocess.Popen[str]:
    # -P: the directory of the script is no place to import from.
    process = subprocess.Popen(
        [sys.executable, "-P", str(_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if _ask(process, None, timeout_s=_START_TIMEOUT_S) is None:
        raise RewardError("the process that runs math-verify did not start", 'try python -c "import math_verify"')
    return process


def _ask(process: subprocess.Popen[str], request: dict[str, Any] | None, *, timeout_s: float) -> dict[str, Any] | None:
    """Send `request`, if any, and return the answer of the process; None, and the process is ended, if it has none.

    Raises:
        RewardError: What it said is no answer, such as what a library printed. The process is ended.
    """
    assert process.stdin is not None  # noqa: S101  # for the type checker; both are pipes
    assert process.stdout is not None  # noqa: S101
    timer = threading.Timer(timeout_s, process.kill)
    timer.daemon = True
    timer.start()
    try:
        if request is not None:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
    except OSError:  # it ended while it was idle
        line = ""
    finally:
        timer.cancel()
    if not line.endswith("\n"):
        _end(process)
        return None
    try:
        return dict(json.loads(line))
    except (TypeError, ValueError) as error:
        _end(process)
        raise RewardError(f"the process that runs math-verify said {line[:200]!r}", "see what prints there") from error


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # what was not written yet has no reader any more
                continue
