"""Which calls an environment makes whose answer no scenario decides: the clock, unseeded generators, identities."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from artkit.environments.check.finding import LikelyCause

__all__ = ["CallWatch"]

_LIBRARY = ("<frozen", str(Path(random.__file__).parent), str(Path(__file__).parents[2]))
_CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime",
           "ctime", "strftime"}  # fmt: skip
_NOW = {"now", "utcnow", "today"}
_FILES = ("open", "listdir", "scandir", "mkdir", "rename", "replace", "unlink", "remove", "rmdir", "link", "symlink")
_ANYWHERE = {
    **{(system, name): (LikelyCause.OUTSIDE, f"os.{name}") for system in ("posix", "nt") for name in _FILES},
    ("posix", "urandom"): (LikelyCause.UNSEEDED, "os.urandom"),
    ("nt", "urandom"): (LikelyCause.UNSEEDED, "os.urandom"),
    ("io", "open"): (LikelyCause.OUTSIDE, "open"),
    ("_io", "open"): (LikelyCause.OUTSIDE, "open"),
    ("sqlite3", "connect"): (LikelyCause.OUTSIDE, "sqlite3.connect"),
    ("_sqlite3", "connect"): (LikelyCause.OUTSIDE, "sqlite3.connect"),
    ("_posixsubprocess", "fork_exec"): (LikelyCause.OUTSIDE, "subprocess"),
}
# Of an object that outlives the episode: a connection to a database, one that is kept alive to a server.
_OF_CONNECTIONS = {"execute", "executemany", "executescript", "connect", "send", "sendall", "sendto", "sendmsg"}
_DIRECTLY = {
    "default_rng": (LikelyCause.UNSEEDED, "numpy.random.default_rng"),
    "hash": (LikelyCause.HASH_ORDER, "hash"),
    "id": (LikelyCause.OTHER_PROCESS, "id"),
    "getpid": (LikelyCause.OTHER_PROCESS, "os.getpid"),
}
_OWN_GENERATOR: Any = random.random.__self__  # type: ignore[attr-defined]  # the instance behind the module's functions


class CallWatch:
    """Notes the calls within a block, with the line that made them.

    Args:
        modules: The environment's own modules; what lies beside other libraries is not taken for one then.

    Attributes:
        seen: For each cause, what was called and where, the first time.
    """

    def __init__(self, modules: Iterable[ModuleType] = ()) -> None:
        self.seen: dict[LikelyCause, str] = {}
        self._own = {getattr(module, "__file__", None) for module in modules}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the calls of this thread until the block ends."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    @contextmanager
    def watching_threads(self) -> Iterator[None]:
        """Note the calls of threads that begin until the block ends."""
        before = threading.getprofile()
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(before)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            found = _of_builtin(argument, is_direct=not self._is_library(frame.f_code))
            caller: FrameType | None = frame
        elif event == "call":
            caller = frame.f_back
            is_direct = caller is not None and not self._is_library(caller.f_code)
            found = _of_function(frame, is_direct=is_direct) if self._is_library(frame.f_code) else None
        else:
            return
        if found is not None and caller is not None and found[0] not in self.seen:
            cause, name = found
            while caller.f_back is not None and self._is_library(caller.f_code):
                if caller.f_code.co_filename.startswith("<frozen importlib"):
                    return  # modules are read from files, and that is no fault of theirs
                caller = caller.f_back
            if not self._is_library(caller.f_code):
                place = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno} in {caller.f_code.co_qualname}"
                self.seen[cause] = f"{name}() at {place}"

    def _is_library(self, code: CodeType) -> bool:
        file = code.co_filename
        return file not in self._own and (file.startswith(_LIBRARY) or "site-packages" in file)


def _of_builtin(function: Any, *, is_direct: bool) -> tuple[LikelyCause, str] | None:
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if owner is _OWN_GENERATOR:
        return LikelyCause.GLOBAL_RANDOM, f"random.{name}"
    module = str(getattr(function, "__module__", None) or getattr(owner, "__name__", ""))
    if found := _ANYWHERE.get((module, name)):
        return found
    if name in _OF_CONNECTIONS and type(owner).__module__ in {"sqlite3", "_socket", "socket"}:
        return LikelyCause.OUTSIDE, f"{type(owner).__module__}.{type(owner).__name__}.{name}"
    # What the standard library asks for its own purposes says nothing about the environment.
    if not is_direct:
        return None
    if isinstance(owner, type) and issubclass(owner, dt.date) and name in _NOW:
        return LikelyCause.CLOCK, f"{owner.__name__}.{name}"
    if module == "time" and name in _CLOCKS:
        return LikelyCause.CLOCK, f"time.{name}"
    if name == "time" and isinstance(owner, asyncio.AbstractEventLoop):
        return LikelyCause.CLOCK, "loop.time"
    return _DIRECTLY.get(name)


def _of_function(frame: FrameType, *, is_direct: bool) -> tuple[LikelyCause, str] | None:
    code = frame.f_code
    file, name = Path(code.co_filename).name, code.co_name
    if file == "random.py":
        owner = frame.f_locals.get("self")
        if owner is _OWN_GENERATOR:
            return LikelyCause.GLOBAL_RANDOM, f"random.{name}"
        if name == "__init__" and frame.f_locals.get("x", 0) is None:
            return LikelyCause.UNSEEDED, "random.Random"
    if file == "uuid.py" and name in {"uuid1", "uuid4"}:
        return LikelyCause.UNSEEDED, f"uuid.{name}"
    if file == "socket.py" and name == "create_connection":
        return LikelyCause.OUTSIDE, "socket.create_connection"
    if file == "base_events.py" and name == "time" and is_direct:
        return LikelyCause.CLOCK, "loop.time"
    return None
