"""A history that grows is read on, not read again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from artkit.checkpoints import MetricHistory

ROWS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["val/reward", "train/reward"]), st.integers(0, 9)))


@given(ROWS, st.lists(st.integers(0, 600), max_size=6))
def test_reading_on_gives_what_one_reading_gives(rows: list[tuple[int, str, int]], cuts: list[int]) -> None:
    """Wherever the file happened to end in between, also in the middle of a row."""
    text = "".join(json.dumps({"step": step, name: value}) + "\n" for step, name, value in rows)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        history = MetricHistory()
        for end in [*sorted(cuts), len(text)]:
            path.write_text(text[:end])
            history.read_on(path)

        whole = MetricHistory.read(path)

    assert history.metrics() == whole.metrics()
    assert [history.values(name) for name in sorted(whole.metrics())] == [
        whole.values(name) for name in sorted(whole.metrics())
    ]


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    """So that the cost of a step does not grow with the length of the run."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "val/reward": 0.5}\n')
    history = MetricHistory()
    history.read_on(path)
    path.write_text(path.read_text().replace("0.5", "0.9") + '{"step": 2, "val/reward": 0.7}\n')

    history.read_on(path)

    assert history.values("val/reward") == {1: 0.5, 2: 0.7}
