"""A recording that grows: each episode is on the disk as soon as it was added."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import art

from artkit.bridge.durable import sync_to_disk
from artkit.episodes.episode import Episode
from artkit.episodes.recording import ALONE, LOST, episode_line, group_line
from artkit.episodes.recording_lines import read_lines, refusing

__all__ = ["Recorder", "record"]


def record(path: str | Path) -> Recorder:
    """Open `path` to record episodes as they end, and go on where a run that was killed left off.

    What `read_groups` loads from it has the episodes that were added one by one in one group per scenario.

    >>> from artkit.testing import choice, episode
    >>> with record("episodes.jsonl") as recording:
    ...     recording.add(episode("2+3=", choice("5")))
    >>> with record("episodes.jsonl") as recording:
    ...     recording.finished
    frozenset({('', 0)})
    """
    return Recorder(path)


class Recorder:
    """Appends groups and episodes to a recording, each as a whole or not at all.

    One process writes to a file at a time.

    Args:
        path: The file; made, readable by the user alone, where there is none. A last line that was cut off is removed.

    Attributes:
        path: The file.

    Raises:
        ConfigurationError: The file is no recording, or one of a later artkit.
        OSError: It cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._groups = 0
        self._finished: set[tuple[str, int]] = set()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not self.path.exists()
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        if is_new:
            sync_to_disk(self.path.parent)
        else:
            try:
                self._read_on()
            except BaseException:
                self.close()
                raise

    @property
    def finished(self) -> frozenset[tuple[str, int]]:
        """The episodes that need not be played again, by scenario id and member; lost ones are not among them."""
        return frozenset(self._finished)

    def add(self, played: art.TrajectoryGroup | art.Trajectory, *, is_lost: bool | None = None) -> None:
        """Append a group with its members, or an episode; when this returns, it is on the disk.

        Args:
            played: What ended.
            is_lost: For an episode, whether it is kept apart from those that count; None means if it has a failure.

        Raises:
            OSError: The disk is full; what was written before is whole.
            ValueError: The recorder is closed.
        """
        if self._descriptor < 0:
            raise ValueError(f"the recorder of {self.path} is closed")
        if isinstance(played, art.TrajectoryGroup):
            members: Sequence[art.Trajectory] = played.trajectories
            self._write(group_line(played) + "".join(episode_line(member, self._groups) for member in members))
            self._groups += 1
            self._finished |= {_name(member) for member in members}
            return
        if is_lost is None:
            is_lost = isinstance(played, Episode) and played.failure is not None
        self._write(episode_line(played, LOST if is_lost else ALONE))
        if not is_lost:
            self._finished.add(_name(played))

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _read_on(self) -> None:
        """Learn what is in the file, and cut off what is no whole line: nothing may grow onto it."""
        end = 0
        for row, line_end in read_lines(self.path):
            end = line_end
            with refusing(self.path):
                if "group" in row:
                    self._groups += 1
                elif row["place"] != LOST:
                    episode = row["episode"]
                    self._finished.add((str(episode["metadata"].get("scenario_id", "")), int(episode.get("member", 0))))
        if end < os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, end)
            os.fsync(self._descriptor)
        if end > 0:
            os.lseek(self._descriptor, end - 1, os.SEEK_SET)
            if os.read(self._descriptor, 1) != b"\n":
                self._write("\n")

    def _write(self, text: str) -> None:
        before = os.fstat(self._descriptor).st_size
        data = memoryview(text.encode())
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise


def _name(trajectory: art.Trajectory) -> tuple[str, int]:
    member = trajectory.member if isinstance(trajectory, Episode) else 0
    return str(trajectory.metadata.get("scenario_id", "")), member
