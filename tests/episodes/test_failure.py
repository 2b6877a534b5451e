"""A failure as text."""

from __future__ import annotations

import pickle

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


def test_a_record_survives_pickling() -> None:
    """Exceptions often do not, which is why there are records."""
    record = FailureRecord.from_exception(ValueError("x"), FailureKind.ENVIRONMENT)

    assert pickle.loads(pickle.dumps(record)) == record
