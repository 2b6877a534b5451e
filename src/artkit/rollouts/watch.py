"""The watch over a gather: does anything end, and does the event loop turn?"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from artkit.episodes.code_rank import code_rank
from artkit.rollouts.events import GatherNotice, GatherWaits, LoopHeldUp

__all__ = ["Watch"]

_BEAT_S = 0.1
_HELD_UP_S = 1.0
_WAITS_S = 60.0


class Watch:
    """Tells when nothing has ended for long, and when the event loop was held up; a context manager.

    Args:
        running: Says the scenario of each rollout that runs.
        tell: Told of what is found: where no rollout ends and no group is scored after a minute, after two, four and
            so on, and where the event loop is held up for a second, and then when that gets twice as bad.
        scoring: Says the scenario of each group that is being scored.

    Attributes:
        longest: The longest time that the event loop was held up, of those that were told; None where there was none.
    """

    def __init__(
        self,
        running: Callable[[], Iterable[str]],
        tell: Callable[[GatherNotice], None],
        *,
        scoring: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.longest: LoopHeldUp | None = None
        self._running = running
        self._scoring = scoring
        self._tell = tell
        self._next_s = _WAITS_S
        self._loop = asyncio.get_running_loop()
        self._ended_s = self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sampler = _Sampler(self._held_up_s)

    def __enter__(self) -> Self:
        self._ended_s = self._due_s = self._loop.time()
        self._sampler.start()
        self._beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look_at_loop()
        self._sampler.stop()

    def note_end(self) -> None:
        """A rollout has ended, or a group was scored."""
        self._ended_s = self._loop.time()
        self._next_s = _WAITS_S

    def _beat(self) -> None:
        self._look_at_loop()
        running, scoring = list(self._running()), tuple(self._scoring())
        waited_s = self._loop.time() - self._ended_s
        if (running or scoring) and waited_s >= self._next_s:
            self._next_s *= 2
            played = tuple(dict.fromkeys(running))
            self._tell(GatherWaits(scenario_ids=played, running=len(running), seconds=waited_s, scoring=scoring))
        self._due_s = self._loop.time() + _BEAT_S
        self._timer = self._loop.call_at(self._due_s, self._beat)

    def _held_up_s(self) -> float:
        return self._loop.time() - self._due_s

    def _look_at_loop(self) -> None:
        seconds, where = self._held_up_s(), self._sampler.take()
        # One that is told is not told again until it is twice as bad: who knows of it has not mended it yet.
        if seconds >= _HELD_UP_S and (self.longest is None or seconds >= 2 * self.longest.seconds):
            self.longest = LoopHeldUp(seconds=seconds, where=where)
            self._tell(self.longest)


class _Sampler:
    """Looks from a thread of its own at what holds up the thread that made it.

    Args:
        held_up_s: Says for how long that is held up.
    """

    def __init__(self, held_up_s: Callable[[], float]) -> None:
        self._held_up_s = held_up_s
        self._watched = threading.get_ident()
        self._call: FrameType | None = None
        self._where = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="artkit-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._call = None

    def take(self) -> str:
        """Return what was seen since the last time."""
        where, self._where, self._call = self._where, "", None
        return where

    def _work(self) -> None:
        while not self._is_over.wait(_HELD_UP_S / 4):
            if not self._where and self._held_up_s() > _HELD_UP_S / 4:
                # The one way to look into another thread.
                self._look(sys._current_frames().get(self._watched))  # noqa: SLF001

    def _look(self, frame: FrameType | None) -> None:
        frames = list(itertools.takewhile(_is_inside_call, (one for one, _ in traceback.walk_stack(frame))))
        call = frames[-1] if frames else None
        if call is not None and call is self._call:  # it is still at the same call of the event loop's
            found = min(frames, key=lambda one: code_rank(one.f_code.co_filename))
            self._where = f"{Path(found.f_code.co_filename).name}:{found.f_lineno} in {found.f_code.co_name}"
        self._call = call


def _is_inside_call(frame: FrameType) -> bool:
    """Whether the frame is of what the event loop calls, and not of the loop itself."""
    return frame.f_globals.get("__name__") not in {"asyncio.events", "asyncio.base_events", "asyncio.runners"}
