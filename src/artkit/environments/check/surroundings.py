"""What surrounds an environment while it runs: what it changes is seen, and what it depends on can be changed."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from artkit.environments.check.generators import Draws, global_generators
from artkit.environments.check.slices import Sliced

if TYPE_CHECKING:
    from artkit.environments.check.calls import CallWatch
    from artkit.environments.check.clock import MovedClock

__all__ = ["Surroundings"]

ResultT = TypeVar("ResultT")


class Surroundings:
    """Runs an environment's calls slice by slice: each piece of a coroutine between two awaits.

    Nobody else runs within a slice, so what changes there was changed by the environment, whatever runs beside it.

    Args:
        draws: What seeds which global generator; the others are left alone.
        clock: What the environment's modules see as the time.
        calls: Notes what is called.

    Attributes:
        moved: Which global generators the environment used: "random", "numpy.random", "torch".
        moved_meanwhile: Which of them moved between two slices, as they do when a thread draws from them.
        left: For each, the states that the environment left it in: equal ones, whatever it was in before, mean that it
            was seeded; and what call that was part of.
        changed: What of the process the environment changed: names of environment variables, or "the directory".
        longest_s: The longest slice, by the call it was part of.
    """

    def __init__(
        self,
        *,
        draws: Mapping[str, Draws] | None = None,
        clock: MovedClock | None = None,
        calls: CallWatch | None = None,
    ) -> None:
        self.moved: set[str] = set()
        self.changed: dict[str, str] = {}
        self.longest_s: dict[str, float] = {}
        self.moved_meanwhile: set[str] = set()
        self.left: dict[str, dict[int, str]] = {}
        self._generators = global_generators(draws or {})
        self._clock = clock
        self._calls = calls
        self._slices = 0

    def call(self, function: Callable[[], ResultT], name: str) -> ResultT:
        """Call a synchronous function as one slice."""
        with self._slice(name):
            return function()

    async def wait(self, awaitable: Awaitable[ResultT], name: str) -> ResultT:
        """Await `awaitable`, slice by slice.

        Raises:
            GivenUpError: It was cancelled, and went on.
            BaseException: Whatever it raised.
        """
        return await Sliced(awaitable, lambda: self._slice(name))

    @contextmanager
    def _slice(self, name: str) -> Iterator[None]:
        self._slices += 1
        variables, directory = dict(os.environ), _directory()
        for generator in self._generators:
            if generator.enter(self._slices):
                self.moved_meanwhile.add(generator.name)
        began_s = time.perf_counter()
        try:
            with _all_of(self._clock, self._calls):
                yield
        finally:
            self.longest_s[name] = max(self.longest_s.get(name, 0.0), time.perf_counter() - began_s)
            for generator in self._generators:
                if generator.leave():
                    self.moved.add(generator.name)
                    self.left.setdefault(generator.name, {}).setdefault(generator.fingerprint, name)
            self._note_changes(variables, directory, name)

    def _note_changes(self, variables: dict[str, str], directory: str, name: str) -> None:
        now = dict(os.environ)
        if now != variables:
            for variable in sorted(now.keys() | variables.keys()):
                if now.get(variable) != variables.get(variable):
                    self.changed.setdefault(variable, name)
        if _directory() != directory:
            self.changed.setdefault(DIRECTORY, name)


DIRECTORY = "the directory"


@contextmanager
def _all_of(clock: MovedClock | None, calls: CallWatch | None) -> Iterator[None]:
    if clock is not None:
        with clock.moved():
            yield
    elif calls is not None:
        with calls.watching():
            yield
    else:
        yield


def _directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""
