"""The process that compares mathematical expressions; run as a script, it answers one JSON line with one.

It imports nothing of artkit, which would take it seconds, and it must be killable: an expression such as 9^9^9^9 is
worked out inside one call that no thread, signal handler or deadline of Python's can interrupt.
"""

from __future__ import annotations

import importlib
import json
import logging
import signal
import sys
from typing import Any

__all__ = ["main"]

# Far more than comparing answers takes; a power that is written out digit by digit would take all there is.
_MEMORY_BYTES = 4 * 2**30


def main() -> None:
    """Answer requests `{"expected", "answer", "timeout_s"}` with `{"is_equal"}` or `{"error"}` until stdin closes."""
    _limit_memory()
    logging.disable()  # math-verify warns that nobody keeps its deadlines; the caller does
    math_verify = importlib.import_module("math_verify")

    # What is boxed is the answer as a whole; a number is not to be picked from inside it.
    configuration = [math_verify.LatexExtractionConfig(boxed_match_priority=0)]

    def read(expression: str) -> list[Any]:
        return list(math_verify.parse(f"\\boxed{{{expression}}}", configuration, parsing_timeout=None))

    _answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(request["timeout_s"])
        try:
            expected = read(request["expected"])
            if not expected:
                _answer({"error": "math-verify cannot read what was expected"})
            else:
                is_equal = math_verify.verify(expected, read(request["answer"]), timeout_seconds=None)
                _answer({"is_equal": bool(is_equal)})
        except Exception as error:  # noqa: BLE001  # told to the caller
            _answer({"error": f"{type(error).__name__}: {error}"})
        finally:
            _end_after(0)


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_after(seconds: float) -> None:
    """Let the system end this process, should its caller be gone and unable to. 0 takes it back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + 1)


def _limit_memory() -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, OSError, ValueError):
        return  # a system without such limits


if __name__ == "__main__":
    main()
