"""A failure as text."""

from __future__ import annotations

import pickle

import pytest

from artkit.episodes import FailureKind, FailureRecord


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_a_record_tells_type_text_and_where() -> None:
    """It is all that is left of the exception in the log, in the recording, in another process."""
    error = KeyError("door")
    error.__cause__ = OSError("gone")

    record = FailureRecord.from_exception(error, FailureKind.ENVIRONMENT)

    assert (record.kind, record.type, record.message) == ("environment", "KeyError", "'door'")
    assert "OSError: gone" in record.traceback
    assert str(record) == "KeyError: 'door'"


def test_an_exception_without_text_is_told_by_its_repr() -> None:
    """An empty message in a log of failures helps nobody."""
    assert FailureRecord.from_exception(TimeoutError(), FailureKind.INFRASTRUCTURE).message == "TimeoutError()"


def test_an_exception_that_cannot_be_printed_is_recorded_all_the_same() -> None:
    """The record is made where an error is being handled; a second one there would stop the whole gather."""
    record = FailureRecord.from_exception(UnprintableError(), FailureKind.ENVIRONMENT)

    assert str(record) == "UnprintableError: its text cannot be read"


def broken_step() -> None:
    raise KeyError("door")


def test_a_record_names_the_line_that_raised_it() -> None:
    """The innermost one, of the exception itself and not of its cause."""
    with pytest.raises(KeyError) as caught:
        broken_step()
    caught.value.__cause__ = OSError("gone")

    record = FailureRecord.from_exception(caught.value, FailureKind.ENVIRONMENT)

    assert record.where == f"test_failure.py:{broken_step.__code__.co_firstlineno + 1} in broken_step"


@pytest.mark.parametrize(
    ("traceback", "where"),
    [
        ("", ""),
        ("KeyError: 'door'\n", ""),
        ('  File "game.py", line 3, in <module>\n', "game.py:3 in <module>"),
        ('  File "C:\\games\\my game.py", line 3, in step\n', "my game.py:3 in step"),
        ('  | ExceptionGroup\n    |   File "/a/b.py", line 4, in run\n', "b.py:4 in run"),
    ],
)
def test_a_line_is_read_from_any_traceback(traceback: str, where: str) -> None:
    """A record that was read back has no exception any more."""
    record = FailureRecord(kind=FailureKind.TOOL, type="KeyError", message="'door'", traceback=traceback)

    assert record.where == where


def test_a_record_survives_pickling() -> None:
    """Exceptions often do not, which is why there are records."""
    record = FailureRecord.from_exception(ValueError("x"), FailureKind.ENVIRONMENT)

    assert pickle.loads(pickle.dumps(record)) == record
