"""The journal: append-only, and what it says after a death."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit import ResumeError
from artkit.scenarios import Cursor
from artkit.training.journal import (
    Began,
    Emptied,
    Ended,
    Entry,
    Intended,
    Journal,
    Logged,
    Trained,
    Validated,
)
from artkit.training.torn_line import mend_last_line

ENTRIES: list[Entry] = [
    Began(step=3, fingerprint={"data": "abc", "learning_rate": 1e-5}, history_bytes=17),
    Emptied(index=0, epoch=0, is_epoch_end=False, cursor=Cursor(0, 2), metrics={"groups_submitted": 2.0}),
    Intended(index=1, epoch=0, is_epoch_end=True, cursor=Cursor(1), metrics={"x": 0.5}, elapsed_s=1.5),
    Trained(index=1, step=4, metrics={"loss/train": 0.25}),
    Logged(index=1, step=4),
    Validated(name="val", step=4),
    Ended(reason="finished"),
]


def written(path: Path) -> Journal:
    journal = Journal(path)
    for entry in ENTRIES:
        journal.append(entry)
    return journal


def test_what_was_appended_is_read_back_equal(tmp_path: Path) -> None:
    """The state of a resumed run is a fold over these entries."""
    assert written(tmp_path / "own" / "journal.jsonl").read() == ENTRIES


def test_a_journal_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Every run begins so."""
    assert Journal(tmp_path / "journal.jsonl").read() == []


def test_a_journal_is_readable_by_its_user_alone(tmp_path: Path) -> None:
    """Options of a backend may hold what others should not see."""
    written(tmp_path / "journal.jsonl")

    assert (tmp_path / "journal.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [2, 10, 30])
def test_a_last_line_that_was_cut_off_did_not_happen(tmp_path: Path, cut: int) -> None:
    """And the next entry begins on a line of its own."""
    journal = written(tmp_path / "journal.jsonl")
    text = journal.path.read_bytes()
    journal.path.write_bytes(text[:-cut])

    before = journal.read()
    journal.append(Ended(reason="again"))

    assert before == ENTRIES[:-1]
    assert journal.read() == [*ENTRIES[:-1], Ended(reason="again")]


@pytest.mark.parametrize("damage", [b"{}", b"not json", b'{"kind": "dreamed"}', b'{"kind": "logged"}', b"\xff\xfe"])
def test_a_damaged_line_in_the_middle_is_refused_with_its_number(tmp_path: Path, damage: bytes) -> None:
    """What the run did is not known then, and guessing would train batches twice."""
    journal = written(tmp_path / "journal.jsonl")
    lines = journal.path.read_bytes().splitlines()
    journal.path.write_bytes(b"\n".join([*lines[:2], damage, *lines[3:], b""]))

    with pytest.raises(ResumeError, match=r"line 3 of .*journal.jsonl is no entry"):
        journal.read()


def test_a_last_line_that_lacks_only_its_end_did_happen(tmp_path: Path) -> None:
    """All of it is there, and the next entry begins on a line of its own."""
    journal = written(tmp_path / "journal.jsonl")
    journal.path.write_bytes(journal.path.read_bytes()[:-1])

    before = journal.read()
    journal.append(Ended(reason="again"))

    assert before == ENTRIES
    assert journal.read() == [*ENTRIES, Ended(reason="again")]


def test_a_journal_of_a_later_format_is_refused_by_its_number(tmp_path: Path) -> None:
    """It is not damaged, and nobody should look for what is wrong with a line of it."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_text('{"kind": "began", "format": 2, "news": true}\n')

    with pytest.raises(ResumeError, match="is a journal of format 2, and this artkit reads up to 1"):
        journal.read()


def test_a_journal_says_its_format(tmp_path: Path) -> None:
    """Else no later version could tell."""
    first = written(tmp_path / "journal.jsonl").path.read_text().splitlines()[0]

    assert json.loads(first)["format"] == 1


def test_a_journal_and_its_recordings_are_set_aside_under_a_number_that_is_free(tmp_path: Path) -> None:
    """No earlier ones are lost, and what belongs together is found together."""
    recordings = tmp_path / "recordings"
    for _ in range(2):
        recordings.mkdir()
        written(tmp_path / "journal.jsonl").set_aside(recordings)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "journal.1.jsonl", "journal.2.jsonl", "recordings.1", "recordings.2",
    ]  # fmt: skip
    assert Journal(tmp_path / "journal.jsonl").set_aside(recordings) is None


def _is_row(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@given(
    st.lists(st.binary().filter(lambda line: b"\n" not in line), max_size=5),
    st.binary(max_size=200_000).filter(lambda text: not _is_row(text)),
)
def test_only_what_stands_behind_the_last_line_end_is_cut(lines: list[bytes], torn: bytes) -> None:
    """Whole lines are whole entries."""
    import tempfile

    torn = torn.replace(b"\n", b" ")
    whole = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        path.write_bytes(whole + torn)

        mend_last_line(path)

        assert path.read_bytes() == whole
