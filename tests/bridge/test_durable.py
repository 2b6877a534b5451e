"""Files that a death cannot leave half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artkit.bridge import replace_file


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what was flushed to the disk, in order."""
    inodes: list[int] = []
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return inodes


def test_the_file_and_then_its_directory_are_on_the_disk(tmp_path: Path, synced: list[int]) -> None:
    """A machine that loses its power may forget a name that its directory was not flushed for."""
    path = tmp_path / "new" / "file"

    with replace_file(path) as file:
        file.write(b"whole")

    assert path.read_bytes() == b"whole"
    assert path.stat().st_mode & 0o777 == 0o600
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A reader never sees half of it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    with pytest.raises(TypeError), replace_file(path) as file:
        file.writelines([b"ne", "w"])  # type: ignore[list-item]

    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("file", b"old")]
