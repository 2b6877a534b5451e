"""A clock that can be moved: what an environment's own modules see when they ask for the time."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["MovedClock"]

# Functions of `time` that tell a time, and what one of their units is in seconds.
_FUNCTIONS = {"time": 1.0, "monotonic": 1.0, "perf_counter": 1.0, "time_ns": 1e-9, "monotonic_ns": 1e-9,
              "perf_counter_ns": 1e-9}  # fmt: skip
_OF_NOW = ("localtime", "gmtime", "ctime")


class MovedClock:
    """Stands in for `time` and `datetime` in some modules, and nowhere else: everybody else's time goes on as ever.

    Args:
        modules: In whose globals the time is moved.
        shift_s: By how much.
        tick_s: Where given, time stands still but for so many seconds per question: two plays that ask as often are
            told the same. A loop that waits for a time to come still ends.
    """

    def __init__(self, modules: Iterable[ModuleType], *, shift_s: float, tick_s: float | None = None) -> None:
        self._shift_s = shift_s
        self._tick_s = tick_s
        self._asked = 0
        stand_ins = self._stand_ins()
        self._places = [
            (vars(module), name, value, stand_ins[id(value)])
            for module in modules
            for name, value in list(vars(module).items())
            if id(value) in stand_ins
        ]

    @contextmanager
    def moved(self) -> Iterator[None]:
        """Move the time until the block ends."""
        for names, name, _, stand_in in self._places:
            names[name] = stand_in
        try:
            yield
        finally:
            for names, name, value, stand_in in self._places:
                if names.get(name) is stand_in:
                    names[name] = value

    def restart(self) -> None:
        """Begin to count the questions anew."""
        self._asked = 0

    def _now(self, name: str) -> float:
        if self._tick_s is None:
            return float(getattr(time, name)()) * _FUNCTIONS[name] + self._shift_s
        self._asked += 1
        return 1_700_000_000.0 + self._shift_s + self._asked * self._tick_s

    def _stand_ins(self) -> dict[int, Any]:
        """Return what stands in for each object of the standard library, by its identity."""
        of_time: dict[str, Callable[..., Any]] = {name: self._teller(name) for name in _FUNCTIONS}
        of_time |= {name: self._converter(name) for name in _OF_NOW}
        of_time["strftime"] = lambda form, at=None: time.strftime(
            form, time.localtime(self._now("time")) if at is None else at
        )
        of_datetime = {"datetime": self._datetime(), "date": self._date()}
        stand_ins: dict[int, Any] = {id(getattr(time, name)): function for name, function in of_time.items()}
        stand_ins |= {id(getattr(dt, name)): kind for name, kind in of_datetime.items()}
        stand_ins[id(time)] = _StandIn(time, of_time)
        stand_ins[id(dt)] = _StandIn(dt, of_datetime)
        return stand_ins

    def _teller(self, name: str) -> Callable[[], float]:
        if name.endswith("_ns"):
            return lambda: round(self._now(name) * 1e9)
        return lambda: self._now(name)

    def _converter(self, name: str) -> Callable[..., Any]:
        function = getattr(time, name)
        return lambda seconds=None: function(self._now("time") if seconds is None else seconds)

    def _datetime(self) -> type:
        now = self._now

        class Moved(dt.datetime, metaclass=_LikeReal):
            real = dt.datetime

            def __new__(cls, *args: Any, **keywords: Any) -> Any:
                return dt.datetime(*args, **keywords)  # noqa: DTZ001  # as asked

            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return dt.datetime.fromtimestamp(now("time"), tz)

            @classmethod
            def utcnow(cls) -> Any:
                return dt.datetime.fromtimestamp(now("time"), dt.UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Any:
                return dt.datetime.fromtimestamp(now("time"))  # noqa: DTZ006  # what `today` is

        return Moved

    def _date(self) -> type:
        now = self._now

        class Moved(dt.date, metaclass=_LikeReal):
            real = dt.date

            def __new__(cls, *args: Any, **keywords: Any) -> Any:
                return dt.date(*args, **keywords)

            @classmethod
            def today(cls) -> Any:
                return dt.date.fromtimestamp(now("time"))  # noqa: DTZ012  # what `today` is

        return Moved


class _LikeReal(type):
    """What is an instance of the real class is one of the stand-in too."""

    real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)


class _StandIn:
    """A module with some of its names replaced."""

    def __init__(self, module: ModuleType, replaced: dict[str, Any]) -> None:
        self._module = module
        self._replaced = replaced

    def __getattr__(self, name: str) -> Any:
        replaced = self.__dict__["_replaced"]
        return replaced[name] if name in replaced else getattr(self.__dict__["_module"], name)
