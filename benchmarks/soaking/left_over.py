"""What a process holds, and what of it is left over."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from artkit import Episode

__all__ = ["episodes_in_memory", "held", "left_over", "peak_rss_mib"]


def held() -> dict[str, Counter[str]]:
    """Return what this process holds: tasks, threads, open files and sockets, child processes."""
    files: Counter[str] = Counter()
    descriptors = Path("/proc/self/fd")
    for path in descriptors.iterdir() if descriptors.exists() else ():
        with contextlib.suppress(OSError):
            files[str(path.readlink()).partition(":")[0]] += 1
    children: Counter[str] = Counter()
    for path in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children.update(path.read_text().split())
    return {
        "tasks": Counter(task.get_coro().__qualname__ for task in asyncio.all_tasks()),  # type: ignore[union-attr]
        # The event loop's own pool ends with the loop.
        "threads": Counter(one.name for one in threading.enumerate() if not one.name.startswith("asyncio_")),
        "files": files,
        "children": children,
    }


async def left_over(before: dict[str, Counter[str]], within_s: float = 10.0) -> list[str]:
    """Return what is held now and was not before; what is on its way out has some time for that."""
    until_s = time.monotonic() + within_s
    while True:
        now = held()
        left = [f"{what} left over: {dict(more)}" for what in now if (more := now[what] - before[what])]
        if not left or time.monotonic() > until_s:
            return left
        await asyncio.sleep(0.1)


def episodes_in_memory() -> int:
    """Return how many episodes have not been freed."""
    gc.collect()
    # By type: other libraries' objects may do anything when they are asked what they are.
    return sum(issubclass(type(thing), Episode) for thing in gc.get_objects())


def peak_rss_mib() -> float:
    """Return the most memory that this process ever had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
