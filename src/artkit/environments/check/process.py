"""What belongs to the whole process: seen when an environment changes it, and left as it was found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from artkit.environments.check.generators import generators_left_as_found
from artkit.environments.check.surroundings import DIRECTORY

__all__ = ["Process"]


class Process:
    """The environment variables and the directory, as they are when this is made."""

    def __init__(self) -> None:
        self._variables = dict(os.environ)
        self._directory = str(Path.cwd())
        self._changed: set[str] = set()

    def changed_again(self, changed: Mapping[str, str]) -> dict[str, str]:
        """Return what of `changed` was changed before too: a library may set something once, when it is loaded."""
        again = {name: call for name, call in changed.items() if name in self._changed}
        if changed.keys() - self._changed:
            self._changed |= changed.keys()
            self._restore()
        return again

    @contextmanager
    def left_as_found(self) -> Iterator[None]:
        """Restore the global generators when the block ends, and what was seen to change."""
        with generators_left_as_found():
            try:
                yield
            finally:
                self._restore()

    def _restore(self) -> None:
        for name in self._changed - {DIRECTORY}:
            if name in self._variables:
                os.environ[name] = self._variables[name]
            else:
                os.environ.pop(name, None)
        if DIRECTORY in self._changed:
            os.chdir(self._directory)
