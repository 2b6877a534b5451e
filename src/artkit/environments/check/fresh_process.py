"""Playing cases in a process of their own, by `child`."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from artkit.environments.check.trace import Trace

__all__ = ["NotPlayedError", "play_in_fresh_process"]


# ART's libraries would fetch a price list from the network; nothing here is paid for.
_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
_CHILD = f"{__package__}.child"


class NotPlayedError(RuntimeError):
    """The cases could not be played in another process; the message says why."""


async def play_in_fresh_process(
    environment: Callable[[], Any],
    cases: Sequence[Any],
    *,
    max_turns: int,
    call_timeout_s: float | None,
    hash_seed: int,
    timeout_s: float | None,
) -> list[Trace]:
    """Play `cases` in a new process of the same interpreter and return their traces.

    Args:
        environment: The class or factory.
        cases: What is played, in order.
        max_turns: As for `play_case`.
        call_timeout_s: As for `play_case`.
        hash_seed: The new process's PYTHONHASHSEED.
        timeout_s: How long it may take.

    Raises:
        NotPlayedError: The class cannot be imported there, or the process failed.
    """
    _check_importable(environment)
    try:
        work = pickle.dumps((environment, list(cases), max_turns, call_timeout_s))
    except Exception as error:
        raise NotPlayedError(f"it cannot be pickled: {error}") from error
    # The path first: what follows it can be unpickled only with it.
    task = pickle.dumps((sys.path, _files(environment, cases), work))
    with tempfile.TemporaryDirectory(prefix="artkit-check-") as directory:
        # By way of files: what the environment prints must not get into the answer.
        files = Path(directory, "task"), Path(directory, "answer")
        await asyncio.to_thread(files[0].write_bytes, task)
        problem = await _run(*map(str, files), hash_seed=hash_seed, timeout_s=timeout_s)
        try:
            answer = await asyncio.to_thread(files[1].read_bytes)
        except FileNotFoundError as error:
            raise NotPlayedError(problem) from error
    # It was written by our own child, into a directory that only this user can enter.
    return [Trace(entries) for entries in pickle.loads(answer)]  # noqa: S301  # as just said


async def _run(*arguments: str, hash_seed: int, timeout_s: float | None) -> str:
    """Run the child to its end and return the last line of what went wrong, if anything did."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", _CHILD, *arguments,
        env={**_OFFLINE, **os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            _, errors = await process.communicate()
    except TimeoutError as error:
        raise NotPlayedError(f"it took longer than {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"it ended with exit status {process.returncode}"


def _check_importable(environment: Any) -> None:
    function = environment
    while hasattr(function, "func"):
        function = function.func
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module == "__main__":
        raise NotPlayedError(f"{name} is defined in __main__, which another process does not import")
    if "<" in name:
        raise NotPlayedError(f"{name} is local, and cannot be imported")


def _files(environment: Any, cases: Sequence[Any]) -> dict[str, str]:
    """Return where the modules of what is pickled lie, for those that are on no path, such as test modules."""
    kinds = [environment, *(type(case.scenario) for case in cases)]
    names = {
        base.__module__ for kind in kinds for base in getattr(kind, "__mro__", (kind,)) if hasattr(base, "__module__")
    }
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
    return {name: file for name, file in files.items() if file and "site-packages" not in file}
