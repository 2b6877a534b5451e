"""A history that grows is read on, not read again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from artkit.checkpoints import MetricHistory

ROWS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["val/reward", "train/reward"]), st.integers(0, 9)))


@given(ROWS, st.lists(st.integers(0, 600), max_size=6), st.sampled_from([None, {"val/reward"}]))
def test_reading_on_gives_what_one_reading_gives(
    rows: list[tuple[int, str, int]], cuts: list[int], metrics: set[str] | None
) -> None:
    """Wherever the file happened to end in between, also in the middle of a row."""
    text = "".join(json.dumps({"step": step, name: value}) + "\n" for step, name, value in rows)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        history = MetricHistory()
        for end in [*sorted(cuts), len(text)]:
            path.write_text(text[:end])
            history.read_on(path, metrics=metrics)

        whole = MetricHistory.read(path)
        read = [history.values(name) for name in sorted(metrics or whole.metrics())]
        names = history.metrics()

    assert read == [whole.values(name) for name in sorted(metrics or whole.metrics())]
    assert names == whole.metrics()


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    """So that the cost of a step does not grow with the length of the run."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "val/reward": 0.5}\n')
    history = MetricHistory()
    history.read_on(path)
    path.write_text(path.read_text().replace("0.5", "0.9") + '{"step": 2, "val/reward": 0.7}\n')

    history.read_on(path)

    assert history.values("val/reward") == {1: 0.5, 2: 0.7}


def test_asking_for_the_names_does_not_make_reading_on_slow(tmp_path: Path) -> None:
    """A policy that finds no value asks for them after every step: what it does not rank by stays unread."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "train/reward": 0.5}\n')
    history = MetricHistory.read(path, metrics={"val/reward"})
    before = history.metrics()
    with path.open("a") as file:
        file.write('{"step": 2, "train/loss": half a row\n{"step": 2, "train/loss": 1}\n')
    history.read_on(path)

    # Half a row that does not hold the metric is noticed by whoever reads it.
    assert (before, history.skipped_lines) == ({"train/reward"}, 0)
    assert history.metrics() == {"train/reward", "train/loss"}
    assert MetricHistory.read(path).skipped_lines == 1


def test_reading_on_begins_where_the_first_reading_was_told_to(tmp_path: Path) -> None:
    """What stands before belongs to an earlier run, also when something else is looked up later."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "a": 9, "b": 9}\n')
    history = MetricHistory()
    history.read_on(path, metrics={"a"}, since_byte=path.stat().st_size)
    with path.open("a") as file:
        file.write('{"step": 2, "a": 1, "b": 2}\n')
    history.read_on(path)

    assert (history.values("a"), history.values("b")) == ({2: 1.0}, {2: 2.0})


def test_a_file_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    """What the old one said is gone with it."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "m": 1}\n{"step": 2, "m": 2}\n')
    history = MetricHistory.read(path)
    path.write_text('{"step": 7, "m": 3}\n')

    history.read_on(path)

    assert history.values("m") == {7: 3.0}


def test_half_a_line_is_counted_once_however_often_it_is_read(tmp_path: Path) -> None:
    """It is read again until it is whole."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "m": 1}\n{"step": 2, "m"')
    history = MetricHistory()
    for _ in range(3):
        history.read_on(path)

    assert (history.skipped_lines, history.values("m")) == (1, {1: 1.0})
