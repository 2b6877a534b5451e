"""What surrounds an environment while it runs: what it changes is seen, and what it depends on can be changed."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from artkit.environments.check.calls import CallWatch
    from artkit.environments.check.clock import MovedClock

__all__ = ["Surroundings"]

ResultT = TypeVar("ResultT")

Draws = Callable[[int], int | None]
"""The seed of a global generator for a slice, by the number of the slice; None lets it go on from the slice before."""


class Surroundings:
    """Runs an environment's calls slice by slice: each piece of a coroutine between two awaits.

    Nobody else runs within a slice, so what changes there was changed by the environment, whatever runs beside it.

    Args:
        random_draws: Seeds of `random`'s global generator; None leaves it alone.
        numpy_draws: The same for NumPy's.
        clock: What the environment's modules see as the time.
        calls: Notes what is called.

    Attributes:
        moved: Which global generators the environment used: "random", "numpy.random".
        changed: What of the process the environment changed: names of environment variables, or "the directory".
        longest_s: The longest slice, by the call it was part of.
    """

    def __init__(
        self,
        *,
        random_draws: Draws | None = None,
        numpy_draws: Draws | None = None,
        clock: MovedClock | None = None,
        calls: CallWatch | None = None,
    ) -> None:
        self.moved: set[str] = set()
        self.changed: dict[str, str] = {}
        self.longest_s: dict[str, float] = {}
        self._generators = [_Generator("random", _Random(), random_draws)]
        if "numpy.random" in sys.modules:
            self._generators.append(_Generator("numpy.random", _NumPyRandom(), numpy_draws))
        self._clock = clock
        self._calls = calls
        self._slices = 0

    def call(self, function: Callable[[], ResultT], name: str) -> ResultT:
        """Call a synchronous function as one slice."""
        with self._slice(name):
            return function()

    async def wait(self, awaitable: Awaitable[ResultT], name: str) -> ResultT:
        """Await `awaitable`, slice by slice."""
        return await _Sliced(awaitable, lambda: self._slice(name))

    @contextmanager
    def _slice(self, name: str) -> Iterator[None]:
        self._slices += 1
        variables, directory = dict(os.environ), _directory()
        for generator in self._generators:
            generator.enter(self._slices)
        began_s = time.perf_counter()
        try:
            with _all_of(self._clock, self._calls):
                yield
        finally:
            self.longest_s[name] = max(self.longest_s.get(name, 0.0), time.perf_counter() - began_s)
            self.moved |= {generator.name for generator in self._generators if generator.leave()}
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


class _Sliced(Awaitable[ResultT]):
    def __init__(self, awaitable: Awaitable[ResultT], around: Callable[[], Any]) -> None:
        self._awaitable = awaitable
        self._around = around

    def __await__(self) -> Generator[Any, Any, ResultT]:
        steps = self._awaitable.__await__()
        error: BaseException | None = None
        while True:
            is_over, value = self._advance(steps, error)
            if is_over:
                return value  # type: ignore[no-any-return]  # what the awaitable returned
            error = None
            try:
                yield value
            except BaseException as thrown:  # noqa: BLE001  # cancellation too goes to the environment, which raises it
                error = thrown

    def _advance(self, steps: Any, error: BaseException | None) -> tuple[bool, Any]:
        with self._around():
            try:
                if error is None:
                    return False, steps.send(None) if hasattr(steps, "send") else next(steps)
                if hasattr(steps, "throw"):
                    return False, steps.throw(error)
                raise error
            except StopIteration as stop:
                return True, stop.value


class _Random:
    def state(self) -> Any:
        return random.getstate()

    def restore(self, state: Any) -> None:
        random.setstate(state)

    def seed(self, seed: int) -> None:
        random.seed(seed)


class _NumPyRandom:
    def state(self) -> Any:
        import numpy as np

        state = np.random.get_state(legacy=False)  # the global generator is what is watched
        inner: Any = state["state"]
        return (state["bit_generator"], inner["key"].tobytes(), inner["pos"], state["has_gauss"], state["gauss"])

    def restore(self, state: Any) -> None:
        import numpy as np

        name, key, pos, has_gauss, gauss = state
        inner = {"key": np.frombuffer(key, dtype=np.uint32), "pos": pos}
        np.random.set_state({"bit_generator": name, "state": inner, "has_gauss": has_gauss, "gauss": gauss})  # as above

    def seed(self, seed: int) -> None:
        import numpy as np

        np.random.seed(seed)  # as above


class _Generator:
    """A global generator, of which an environment may see other numbers than everybody else."""

    def __init__(self, name: str, generator: _Random | _NumPyRandom, draws: Draws | None) -> None:
        self.name = name
        self._generator = generator
        self._draws = draws
        self._of_others: Any = None
        self._before: Any = None
        self._after: Any = None

    def enter(self, number: int) -> None:
        self._before = self._generator.state()
        if self._draws is None:
            return
        self._of_others = self._before
        seed = self._draws(number)
        if seed is not None:
            self._generator.seed(seed)
        elif self._after is not None:
            self._generator.restore(self._after)
        self._before = self._generator.state()

    def leave(self) -> bool:
        """End the slice; whether the generator was used in it."""
        self._after = self._generator.state()
        if self._draws is not None:
            self._generator.restore(self._of_others)
        return bool(self._after != self._before)


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


def running_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of this loop that are not done."""
    return {task for task in asyncio.all_tasks() if not task.done()}
