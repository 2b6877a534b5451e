"""Rows of ART's history, found again by what they hold."""

from __future__ import annotations

from pathlib import Path

from artkit.training.history_rows import has_row, rows_of, size_of

OLD = '{"step": 1, "train/batch_index": 0.0, "train/reward": 9}\n'
NEW = '{"step": 1, "train/batch_index": 0.0}\n{"step": 1, "val/reward": 0.5}\nnot a row\n[1]\n{"step": 2, "x"'


def history(directory: Path) -> Path:
    path = directory / "history.jsonl"
    path.write_text(OLD + NEW)
    return path


def test_a_row_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    """A new run on the same weights logs steps that may have been logged before."""
    path = history(tmp_path)

    assert has_row(path, since_byte=0, step=1, key="train/reward")
    assert not has_row(path, since_byte=len(OLD), step=1, key="train/reward")


def test_a_row_is_known_by_step_key_and_value(tmp_path: Path) -> None:
    """Some backends log a step twice, for different batches."""
    path = history(tmp_path)

    assert has_row(path, since_byte=0, step=1, key="train/batch_index", value=0.0)
    assert not has_row(path, since_byte=0, step=1, key="train/batch_index", value=1.0)
    assert not has_row(path, since_byte=0, step=2, key="x")


def test_the_rows_of_a_step_are_joined(tmp_path: Path) -> None:
    """Training and validation are logged apart and looked at together."""
    joined = rows_of(history(tmp_path), since_byte=len(OLD), step=1)

    assert joined == {"step": 1, "train/batch_index": 0.0, "val/reward": 0.5}


def test_a_history_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    """As before the first step."""
    path = tmp_path / "none"

    assert (has_row(path, since_byte=0, step=1, key="x"), rows_of(path, since_byte=0, step=1), size_of(path)) == (
        False, {}, 0,
    )  # fmt: skip
