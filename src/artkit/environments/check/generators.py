"""The global generators of random numbers: watched, and given other states than everybody else sees."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Draws", "GlobalGenerator", "generators_left_as_found", "global_generators"]

Draws = Callable[[int], int | None]
"""The seed of a global generator for a slice, by the number of the slice; None lets it go on from the slice before."""


class GlobalGenerator:
    """A global generator, of which an environment may see other numbers than everybody else."""

    def __init__(self, name: str, source: _Source, draws: Draws | None) -> None:
        self.name = name
        self._source = source
        self._draws = draws
        self._of_others: Any = None
        self._before: Any = None
        self._after: Any = None

    def enter(self, number: int) -> bool:
        """Begin a slice; whether the generator was used since the slice before."""
        self._before = self._source.state()
        is_moved = self._draws is None and self._after is not None and bool(self._after != self._before)
        if self._draws is None:
            return is_moved
        self._of_others = self._before
        seed = self._draws(number)
        if seed is not None:
            self._source.seed(seed)
        elif self._after is not None:
            self._source.restore(self._after)
        self._before = self._source.state()
        return is_moved

    def leave(self) -> bool:
        """End the slice; whether the generator was used in it."""
        self._after = self._source.state()
        if self._draws is not None:
            self._source.restore(self._of_others)
        return bool(self._after != self._before)

    @property
    def fingerprint(self) -> int:
        """The state it was left in."""
        return hash(self._after)


class _Source(Protocol):
    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...

    def seed(self, seed: int) -> None: ...


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


class _TorchRandom:
    """Torch's generator on the CPU; torch is never imported for it."""

    def __init__(self) -> None:
        self._generator = sys.modules["torch"].default_generator

    def state(self) -> Any:
        return self._generator.get_state().numpy().tobytes()

    def restore(self, state: Any) -> None:
        torch = sys.modules["torch"]
        self._generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def seed(self, seed: int) -> None:
        self._generator.manual_seed(seed)


def global_generators(draws: Mapping[str, Draws]) -> list[GlobalGenerator]:
    """Return the global generators of what is loaded, by these names: "random", "numpy.random", "torch"."""
    return [GlobalGenerator(name, source, draws.get(name)) for name, source in _sources().items()]


@contextmanager
def generators_left_as_found() -> Iterator[None]:
    """Restore the global generators of what is loaded when the block ends."""
    states = [(source, source.state()) for source in _sources().values()]
    try:
        yield
    finally:
        for source, state in states:
            source.restore(state)


def _sources() -> dict[str, _Source]:
    sources: dict[str, _Source] = {"random": _Random()}
    if "numpy.random" in sys.modules:
        sources["numpy.random"] = _NumPyRandom()
    if hasattr(sys.modules.get("torch"), "default_generator"):
        sources["torch"] = _TorchRandom()
    return sources
