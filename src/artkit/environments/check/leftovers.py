"""What an episode left open or running: files, sockets, tasks, threads, child processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from artkit.environments.check.finding import LikelyCause

__all__ = ["Open", "left_open"]

_GRACE_S = 0.5
# The event loop's own pool; it is the same for all episodes.
_SHARED_THREADS = ("asyncio_",)


@dataclass(frozen=True)
class Open:
    """What is open now, by kind; the values name each thing."""

    things: Mapping[LikelyCause, Mapping[Hashable, str]] = field(default_factory=dict)

    @classmethod
    def now(cls) -> Open:
        """Return what is open in this process and event loop."""
        things: dict[LikelyCause, dict[Hashable, str]] = {
            LikelyCause.FILES: {},
            LikelyCause.SOCKETS: {},
            LikelyCause.PIPES: {},
            LikelyCause.TASKS: {
                task: getattr(task.get_coro(), "__qualname__", task.get_name())
                for task in asyncio.all_tasks()
                if not task.done() and task is not asyncio.current_task()
            },
            LikelyCause.THREADS: {
                thread: thread.name
                for thread in threading.enumerate()
                if thread.is_alive() and not thread.name.startswith(_SHARED_THREADS)
            },
            LikelyCause.PROCESSES: {pid: f"process {name}" for pid, name in _children().items()},
        }
        for descriptor, (kind, name) in _descriptors().items():
            things[kind][descriptor, name] = name
        return cls(things)

    def since(self, before: Open) -> dict[LikelyCause, list[str]]:
        """Return the names of what is open now and was not before, by kind."""
        left = {
            kind: [name for thing, name in things.items() if thing not in before.things.get(kind, {})]
            for kind, things in self.things.items()
        }
        return {kind: names for kind, names in left.items() if names}


async def left_open(before: Open) -> dict[LikelyCause, list[str]]:
    """Return what is open beyond `before`, once what is closing had a moment to finish."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _GRACE_S
    while (left := Open.now().since(before)) and loop.time() < until_s:  # noqa: ASYNC110  # nothing tells when others have closed
        await asyncio.sleep(0.01)
    return left


def _descriptors() -> dict[int, tuple[LikelyCause, str]]:
    """Return the open descriptors of this process; none where the system does not list them."""
    directory = next((path for path in map(Path, ("/proc/self/fd", "/dev/fd")) if path.is_dir()), None)
    found: dict[int, tuple[LikelyCause, str]] = {}
    if directory is None:
        return found
    for name in os.listdir(directory):  # noqa: PTH208  # names only: the listing's own descriptor is among them
        with contextlib.suppress(OSError, ValueError):
            descriptor = int(name)
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISSOCK(mode):
                found[descriptor] = LikelyCause.SOCKETS, f"socket {descriptor}"
            elif stat.S_ISFIFO(mode):
                found[descriptor] = LikelyCause.PIPES, f"pipe {descriptor}"
            elif stat.S_ISREG(mode):
                found[descriptor] = LikelyCause.FILES, _target(directory / name)
    return found


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return f"file {path.name}"


def _children() -> dict[int, str]:
    """Return the running child processes, by their id; none where the system does not list them."""
    children: dict[int, str] = {}
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            for pid in map(int, path.read_text().split()):
                status = Path(f"/proc/{pid}/stat").read_text()
                name, _, rest = status.partition("(")[2].rpartition(")")
                if rest.split()[0] != "Z":
                    children[pid] = f"{pid} ({name})"
    return children
