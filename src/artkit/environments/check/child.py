"""The child of `fresh_process`: plays what its parent wrote down, and writes down what came of it."""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

__all__ = ["answer"]


class _ByFile(importlib.abc.MetaPathFinder):
    """Finds modules by their file where no other finder does, and makes up the packages around them."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module that is among the files, or of a package of one."""
        if name in self._files:
            return importlib.util.spec_from_file_location(name, self._files[name])
        if any(known.startswith(f"{name}.") for known in self._files):
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = []
            return spec
        return None


def answer(task: Path, result: Path) -> None:
    """Play the cases in `task` and write their traces to `result`."""
    # Written by the parent, into a directory that only this user can enter.
    sys.path[:], files, work = pickle.loads(task.read_bytes())  # noqa: S301  # as just said
    sys.meta_path.append(_ByFile(files))
    environment, cases, max_turns, call_timeout_s = pickle.loads(work)  # noqa: S301  # as above
    from artkit.environments.check.playing import play_case

    async def play_all() -> list[Any]:
        played = [
            await play_case(environment, case, max_turns=max_turns, call_timeout_s=call_timeout_s) for case in cases
        ]
        return [one.trace.entries for one in played]

    written = result.with_suffix(".part")
    written.write_bytes(pickle.dumps(asyncio.run(play_all())))
    written.replace(result)


if __name__ == "__main__":
    answer(*map(Path, sys.argv[1:]))
