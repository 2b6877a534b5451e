"""The metric history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.checkpoints import MetricHistory

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_a_missing_file_is_an_empty_history(file: Path) -> None:
    """A run that has logged nothing."""
    history = MetricHistory.read(file)

    assert (history.metrics(), history.values("val/reward"), history.row_at(1)) == (frozenset(), {}, {})


def test_an_unreadable_file_is_an_error_and_not_an_empty_history(tmp_path: Path) -> None:
    """Nothing logged and nothing readable are not the same."""
    with pytest.raises(IsADirectoryError):
        MetricHistory.read(tmp_path)


def test_rows_as_art_writes_them(file: Path) -> None:
    """Train and validation of one step are two rows; bookkeeping is no metric."""
    bookkeeping = {"training_step": 2, "step": 2, "recorded_at": "2025-01-01T00:00:00"}
    file.write_text(
        json.dumps({"train/reward": 0.25, "time/wall_clock_sec": 12.5} | bookkeeping)
        + "\n"
        + json.dumps({"val/reward": 1, "val/won": True} | bookkeeping)
        + "\n"
    )
    history = MetricHistory.read(file)

    assert history.row_at(2) == {
        "time/wall_clock_sec": 12.5,
        "train/reward": 0.25,
        "val/reward": 1.0,
        "val/won": 1.0,
    }
    assert history.metrics() == {"time/wall_clock_sec", "train/reward", "val/reward", "val/won"}
    assert history.skipped_lines == 0


@pytest.mark.parametrize(
    ("lines", "expected", "skipped"),
    [
        (['{"step": 1, "m": 1}', '{"step": 2, "m": 0.5}'], {1: 1.0, 2: 0.5}, 0),
        (['{"step": 1, "m": 1}', '{"step": 2, "m": 0.'], {1: 1.0}, 1),
        (['{"step": 1, "m": 1}', '{"step": 2, "m"{"step": 3, "m": 3}'], {1: 1.0, 3: 3.0}, 0),
        (['{"step": 1, "m": 1}{"step": 2, "m": 2}'], {1: 1.0, 2: 2.0}, 0),
        (['{"step": 1, "m": Infinity}', '{"step": 2, "m": -Infinity}', '{"step": 3, "m": NaN}'], {}, 0),
        (['{"step": 1, "m": 0.5}', '{"step": 1, "m": Infinity}'], {1: 0.5}, 0),
        (['{"step": 1, "m": 0.5}', '{"step": 1, "m": 0.75}', '{"step": 1, "n": 1}'], {1: 0.75}, 0),
        (['{"step": 9, "m": 0.5}', '{"step": 2, "m": 0.75}'], {2: 0.75, 9: 0.5}, 0),
        (["", "   ", '{"step": 1, "m": 1}', ""], {1: 1.0}, 0),
        (["[1, 2]", "3", '"m"', "null", "\x00\x00", '{"step": 1, "m": 1}'], {1: 1.0}, 5),
        (['{"m": 1}', '{"step": "1", "m": 1}', '{"step": true, "m": 1}', '{"step": -1, "m": 1}'], {}, 4),
        (['{"step": 1.5, "m": 1}', '{"step": 2.0, "m": 2}', '{"training_step": 3, "m": 3}'], {2: 2.0, 3: 3.0}, 1),
        (['{"step": 1, "m": null}', '{"step": 2, "m": "0.5"}', '{"step": 3, "m": [0.5]}'], {}, 0),
        (['{"step": 1, "m": 1' + "0" * 400 + "}", '{"step": 1' + "0" * 30 + ', "m": 1}'], {}, 1),
        (['{"step": 1, "note": "\\ud800", "m": 1}'], {1: 1.0}, 0),
    ],
    ids=[
        "integer then float",
        "half last line",
        "row behind half a line",
        "row behind a row",
        "not finite",
        "the last finite value of a step",
        "the last row that has the metric",
        "an earlier step later",
        "blank lines",
        "no rows",
        "no steps",
        "steps as numbers",
        "no numbers",
        "too large",
        "half a surrogate pair",
    ],
)
def test_what_art_and_crashes_really_write(file: Path, lines: list[str], expected, skipped: int) -> None:
    """Each of these has cost somebody the best checkpoint."""
    file.write_text("\n".join(lines))
    history = MetricHistory.read(file)

    assert (history.values("m"), history.skipped_lines) == (expected, skipped)
    assert ("m" in history.metrics()) == bool(expected)


def test_a_metric_may_come_late(file: Path) -> None:
    """A reader that guesses columns from the first rows misses it."""
    rows = [{"step": step, "train/reward": 0.5} for step in range(10_001)]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"step": 10_000, "val/reward": 0.25}]))

    assert MetricHistory.read(file).values("val/reward") == {10_000: 0.25}


@pytest.mark.parametrize(
    ("content", "expected", "skipped"),
    [
        (b'\xef\xbb\xbf{"step": 1, "m": 1}\n{"step": 2, "m": 2}\n', {1: 1.0, 2: 2.0}, 0),
        (b'{"step": 1, "m": 1}\r\n\r\n{"step": 2, "m": 2}\r\n', {1: 1.0, 2: 2.0}, 0),
        (b'{"step": 1, "note": "\xff\xfe", "m": 1}\n{"step": 2, "m": 2}\n', {1: 1.0, 2: 2.0}, 0),
        (b'\xff\x00\xfe\n{"step": 2, "m": 2}\n', {2: 2.0}, 1),
        (b'{"step": 1, "m": 1, "step": 3, "m": 2}\n', {3: 2.0}, 0),
        (b'{"step": 1, "n": 1' + b"0" * 5_000 + b', "m": 1}\n', {1: 1.0}, 0),
        (b'{"step": 1, "m": 1' + b"0" * 5_000 + b"}\n", {}, 0),
        (b'{"step": 1, "\\u006d": 1}\n', {1: 1.0}, 0),
        (b'{"step": 1, "x": {"m": 9}, "m": 1}\n', {1: 1.0}, 0),
        (b"[" * 100_000 + b'\n{"step": 2, "m": 2}\n', {2: 2.0}, 1),
    ],
    ids=[
        "a mark of the byte order",
        "carriage returns",
        "bytes that are no text, beside the metric",
        "bytes that are no text",
        "a key twice",
        "more digits than Python reads, beside the metric",
        "more digits than Python reads",
        "an escaped key",
        "nested",
        "nested too deep",
    ],
)
@pytest.mark.parametrize("metrics", [None, {"m"}, {"m", "n"}])
def test_what_editors_and_other_programs_make_of_the_file(
    file: Path, content: bytes, expected, skipped: int, metrics
) -> None:
    """Whatever can still be read counts, however much of the rows is asked for."""
    file.write_bytes(content)
    history = MetricHistory.read(file, metrics=metrics)

    assert (history.values("m"), "m" in history, history.metrics() >= {"m"}) == (expected, *[bool(expected)] * 2)
    assert history.skipped_lines == skipped


def test_what_earlier_runs_wrote_can_be_left_out(file: Path) -> None:
    """Rows of an earlier fork tell of weights that are not there any more."""
    earlier = '{"step": 1, "m": 9}\n{"step": 2, "m": 9}\n'
    file.write_text(earlier + '{"step": 1, "m": 1}\n')

    for metrics in (None, {"m"}, {"n"}):
        history = MetricHistory.read(file, metrics=metrics, since_byte=len(earlier))

        assert history.values("m") == {1: 1.0}

    assert MetricHistory.read(file, since_byte=len(earlier) + 100).values("m") == {1: 1.0, 2: 9.0}


def test_only_the_metrics_that_were_asked_for_are_held_and_the_others_are_looked_up(file: Path) -> None:
    """A long run has dozens; asking for one more must not answer that it was never logged."""
    file.write_text('{"step": 1, "a": 1, "b": 2}\n{"step": 2, "a": 3, "b": 4}\n')
    history = MetricHistory.read(file, metrics={"b"})

    assert repr(history) == f"MetricHistory(b, read from {str(file)!r})"
    assert (history.values("b"), history.metrics()) == ({1: 2.0, 2: 4.0}, {"a", "b"})
    assert (history.values("a"), history.values("b"), "c" in history) == ({1: 1.0, 2: 3.0}, {1: 2.0, 2: 4.0}, False)
    assert MetricHistory.read(file, metrics=()).row_at(2) == {"a": 3.0, "b": 4.0}


def test_a_file_that_is_gone_takes_nothing_along(file: Path) -> None:
    """What was read stays."""
    file.write_text('{"step": 1, "a": 1, "b": 2}\n')
    history = MetricHistory.read(file, metrics={"b"})
    file.unlink()

    assert (history.values("a"), history.values("b"), history.metrics()) == ({}, {1: 2.0}, {"b"})


rows = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "val/reward"]), st.one_of(finite, st.integers(-9, 9)), min_size=1),
    max_size=9,
)


@given(rows, st.integers(0, 300))
def test_a_file_cut_anywhere_loses_only_what_was_cut(tmp_path_factory, rows, cut: int) -> None:
    """A killed process cuts anywhere."""
    file = tmp_path_factory.mktemp("run") / "history.jsonl"
    lines = [json.dumps({"step": step} | row) + "\n" for step, row in enumerate(rows)]
    text = "".join(lines)[:cut]
    file.write_text(text)
    whole = sum(len("".join(lines[: n + 1]).rstrip("\n")) <= cut for n in range(len(lines)))
    expected = MetricHistory.from_values(
        {
            name: {step: row[name] for step, row in enumerate(rows[:whole]) if name in row}
            for name in ("a", "b", "val/reward")
        }
    )

    history = MetricHistory.read(file)

    assert history.metrics() == expected.metrics()
    assert all(history.values(name) == expected.values(name) for name in history.metrics())


@given(st.dictionaries(st.integers(0, 99), st.floats()))
def test_values_are_finite_and_in_the_order_of_steps(values: dict[int, float]) -> None:
    """Infinity is no evidence."""
    history = MetricHistory.from_values({"m": values})

    assert list(history.values("m").items()) == sorted(
        (step, value) for step, value in values.items() if abs(value) < float("inf")
    )


names = st.sampled_from(["a", "val/reward", "val/reward_low", "val/r\u00fcgen", 'say "a"', "\ud800"])
logged = st.lists(st.dictionaries(names, st.one_of(st.floats(), st.integers(), st.text(), st.none())), max_size=9)


@given(logged, st.sets(names), st.booleans())
def test_reading_some_metrics_gives_the_values_that_reading_all_gives(
    tmp_path_factory, rows, wanted: set[str], is_ascii: bool
) -> None:
    """Lines are passed over unread, and none too many."""
    file = tmp_path_factory.mktemp("run") / "history.jsonl"
    lines = (json.dumps({"step": step} | row, ensure_ascii=is_ascii) for step, row in enumerate(rows))
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8", errors="surrogatepass")
    whole = MetricHistory.read(file)

    some = MetricHistory.read(file, metrics=wanted)

    assert [some.values(name) for name in wanted] == [whole.values(name) for name in wanted]
    assert some.metrics() == whole.metrics()
    assert [some.values(name) for name in whole.metrics()] == [whole.values(name) for name in whole.metrics()]
