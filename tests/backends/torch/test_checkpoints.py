"""Checkpoints on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from artkit.backends.torch.checkpoints import CheckpointStore
from artkit.errors import CheckpointError


def write_files(directory: Path) -> None:
    (directory / "weights").write_bytes(b"0" * 100)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """Steps 0, 1 and 2."""
    store = CheckpointStore(tmp_path)
    for step in range(3):
        store.write(step, {}, write_files)
    return store


def test_a_checkpoint_is_in_arts_layout(store: CheckpointStore, tmp_path: Path) -> None:
    """ART's own tools find it there."""
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0000", "0001", "0002"]


def test_a_write_that_fails_leaves_nothing(store: CheckpointStore, tmp_path: Path) -> None:
    """A full disk must not cost the last good step."""

    def fail(directory: Path) -> None:
        write_files(directory)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        store.write(3, {}, fail)

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0000", "0001", "0002"]


def test_a_write_that_was_killed_is_cleared_away(store: CheckpointStore, tmp_path: Path) -> None:
    """It never got its name, so it never was a checkpoint."""
    (tmp_path / ".0003.partial").mkdir()
    write_files(tmp_path / ".0003.partial")

    assert CheckpointStore(tmp_path).steps() == {0, 1, 2}
    assert not (tmp_path / ".0003.partial").exists()


@pytest.mark.parametrize("damage", ["cut", "file gone", "manifest gone", "manifest cut", "manifest empty"])
def test_a_damaged_checkpoint_does_not_count(store: CheckpointStore, tmp_path: Path, damage: str) -> None:
    """Resuming from half a checkpoint would be worse than from the one before."""
    weights, manifest = tmp_path / "0002" / "weights", tmp_path / "0002" / "checkpoint.json"
    match damage:
        case "cut":
            weights.write_bytes(b"0" * 50)
        case "file gone":
            weights.unlink()
        case "manifest gone":
            manifest.unlink()
        case "manifest cut":
            manifest.write_text('{"step": 2, "fi')
        case "manifest empty":
            manifest.write_text("[]")

    assert store.steps() == {0, 1}


def test_a_damaged_checkpoint_is_replaced(store: CheckpointStore, tmp_path: Path) -> None:
    """The run goes on from the step before and comes by again."""
    (tmp_path / "0002" / "weights").unlink()

    store.write(2, {}, write_files)

    assert store.steps() == {0, 1, 2}


def test_a_whole_checkpoint_is_not_overwritten(store: CheckpointStore) -> None:
    """Somebody else is training this model."""
    with pytest.raises(CheckpointError, match="step 1 exists"):
        store.write(1, {}, write_files)


def test_deleting_keeps_what_is_asked_for(store: CheckpointStore, tmp_path: Path) -> None:
    """And nothing but checkpoints is touched."""
    (tmp_path / "notes").mkdir()

    store.delete(keep={0, 2, 7})

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0000", "0002", "notes"]


def test_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    """Files of the user's, or of another program."""
    (tmp_path / "²").mkdir()
    (tmp_path / ".0004.partial").write_text("a file")
    store = CheckpointStore(tmp_path)
    store.write(0, {}, write_files)

    store.delete(keep=[])

    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".0004.partial", "²"]
