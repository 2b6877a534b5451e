"""A failure as text."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from pathlib import Path

import art
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import FailureKind, FailureRecord
from artkit.episodes.failure import shorten
from artkit.transport import deadline


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
    assert str(record) == "KeyError: 'door' (from OSError: gone)"


def test_an_exception_without_text_is_told_by_its_repr() -> None:
    """An empty message in a log of failures helps nobody."""
    assert FailureRecord.from_exception(TimeoutError(), FailureKind.INFRASTRUCTURE).message == "TimeoutError()"


def test_an_exception_that_cannot_be_printed_is_recorded_all_the_same() -> None:
    """The record is made where an error is being handled; a second one there would stop the whole gather."""
    record = FailureRecord.from_exception(UnprintableError(), FailureKind.ENVIRONMENT)

    assert str(record) == "UnprintableError: its text cannot be read"


def test_a_cause_that_cannot_be_printed_hides_nothing() -> None:
    """It is the cause of something that can."""
    error = KeyError("door")
    error.__cause__ = UnprintableError()

    record = FailureRecord.from_exception(error, FailureKind.ENVIRONMENT)

    assert str(record) == "KeyError: 'door' (from UnprintableError: its text cannot be read)"


def caused(error: BaseException, *causes: BaseException) -> BaseException:
    """Return `error`, with each of `causes` the cause of the one before."""
    link = error
    for link.__cause__ in causes:
        link = link.__cause__
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (caused(RuntimeError("a"), ValueError("b"), OSError("c")), "RuntimeError: a (from OSError: c)"),
        (caused(RuntimeError("a"), ValueError("b"), TimeoutError()), "RuntimeError: a (from ValueError: b)"),
        (caused(RuntimeError("it failed: c"), OSError("c")), "RuntimeError: it failed: c"),
        (caused(TimeoutError("late"), TimeoutError(), asyncio.CancelledError()), "TimeoutError: late"),
        (caused(RuntimeError("a"), MemoryError()), "RuntimeError: a (from MemoryError)"),
        (caused(RuntimeError("MemoryError"), MemoryError()), "RuntimeError: MemoryError"),
        (caused(RuntimeError("a"), ExceptionGroup("g", [OSError("c")])), "RuntimeError: a (from OSError: c)"),
    ],
)
def test_a_record_tells_what_it_came_from_in_the_end(error: BaseException, text: str) -> None:
    """That there was a connection error says nothing; which address refused does."""
    assert str(FailureRecord.from_exception(error, FailureKind.INFRASTRUCTURE)) == text


def test_causes_that_go_round_in_a_circle_end() -> None:
    """Code that raises what it kept makes such a circle."""
    error, other = RuntimeError("a"), OSError("b")
    error.__cause__, other.__cause__ = other, error

    assert FailureRecord.from_exception(error, FailureKind.ENVIRONMENT).cause == "OSError: b"


def cancelled_by(error: BaseException) -> asyncio.CancelledError:
    cancelled = asyncio.CancelledError()
    cancelled.__context__ = error
    return cancelled


GONE = ConnectionError("sandbox gone")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ExceptionGroup("unhandled errors in a TaskGroup", [GONE]), "ConnectionError: sandbox gone"),
        (ExceptionGroup("g", [ExceptionGroup("h", [GONE])]), "ConnectionError: sandbox gone"),
        (
            ExceptionGroup("g", [GONE, KeyError("door"), ConnectionError("sandbox gone")]),
            "ExceptionGroup: 2 x ConnectionError: sandbox gone; KeyError: 'door'",
        ),
        (
            ExceptionGroup("g", [OSError(str(number)) for number in range(7)]),
            "ExceptionGroup: OSError: 0; OSError: 1; OSError: 2; OSError: 3; OSError: 4; and 2 others",
        ),
        (BaseExceptionGroup("g", [asyncio.CancelledError(), GONE]), "ConnectionError: sandbox gone"),
        (cancelled_by(GONE), "ConnectionError: sandbox gone"),
    ],
)
def test_what_only_stands_before_the_cause_is_not_told_in_its_place(error: BaseException, text: str) -> None:
    """Nobody can mend "unhandled errors in a TaskGroup (1 sub-exception)", or a `CancelledError`."""
    assert str(FailureRecord.from_exception(error, FailureKind.ENVIRONMENT)) == text


def test_the_line_that_failed_is_found_in_a_group_too() -> None:
    """Environments open task groups."""
    with pytest.raises(KeyError) as caught:
        broken_step()
    record = FailureRecord.from_exception(ExceptionGroup("g", [caught.value]), FailureKind.ENVIRONMENT)

    assert record.where == f"test_failure.py:{broken_step.__code__.co_firstlineno + 1} in broken_step"


def test_a_huge_message_is_kept_in_part() -> None:
    """A thousand failures that hold a page each must fit into memory, and into the recording."""
    with pytest.raises(ValueError, match="x") as caught:
        raise ValueError("begins" + "x" * 10_000_000 + "ends")

    record = FailureRecord.from_exception(caught.value, FailureKind.ENVIRONMENT)

    assert (record.message[:6], record.message[-4:]) == ("begins", "ends")
    assert "characters left out" in record.message
    assert len(record.message) <= 4_000
    assert len(record.traceback) <= 32_000
    assert record.where.endswith("in test_a_huge_message_is_kept_in_part")


@given(text=st.text(max_size=300), most=st.integers(60, 400))
def test_a_text_is_never_longer_than_it_may_be(text: str, most: int) -> None:
    """Nor is it touched where it is short enough."""
    short = shorten(text, most)

    assert len(short) <= most
    assert short == text or len(text) > most


def test_keys_are_not_in_a_record() -> None:
    """It goes to the log, to the recording and to the backend's service."""
    key = "sk-aB3dE5fG7hJ9kL1mN3pQ"
    error = caused(RuntimeError(f"401 for {key}"), OSError(f"Authorization: Bearer {key}"))

    assert key not in repr(FailureRecord.from_exception(error, FailureKind.INFRASTRUCTURE))


def test_a_headline_is_one_short_line() -> None:
    """It is what failures are counted by."""
    record = FailureRecord(kind=FailureKind.ENVIRONMENT, type="OSError", message=f"no\n  {'x' * 900}")

    assert record.headline.startswith("environment: OSError: no xxx")
    assert len(record.headline) <= 200


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


STANDARD = inspect.getfile(asyncio.timeout)
LIBRARY = inspect.getfile(art.Trajectory)
ARTKIT = inspect.getfile(deadline)


@pytest.mark.parametrize(
    ("files", "where"),
    [
        (["game.py", ARTKIT], "game.py:1 in f1"),
        (["game.py", STANDARD, "desk.py", LIBRARY, STANDARD], "desk.py:3 in f3"),
        (["<ipython-input-5-0a1b2c>", LIBRARY, "<frozen runpy>"], "<ipython-input-5-0a1b2c>:1 in f1"),
        (["/elsewhere/site-packages/games/game.py", "/usr/share/dist-packages/games/desk.py"], "desk.py:2 in f2"),
        ([ARTKIT, STANDARD], f"{Path(STANDARD).name}:2 in f2"),
    ],
)
def test_the_line_is_one_that_the_user_can_mend(files: list[str], where: str) -> None:
    """Where a library raised, or a deadline of artkit's, it was called from there."""
    frames = [f'  File "{file}", line {number}, in f{number}\n' for number, file in enumerate(files, 1)]
    record = FailureRecord(kind=FailureKind.TOOL, type="KeyError", message="'door'", traceback="".join(frames))

    assert record.where == where


class OwnText(str):
    """A text of a class that no other process knows."""

    __slots__ = ()


def test_a_record_survives_pickling() -> None:
    """Exceptions often do not, which is why there are records."""

    class LocalError(Exception):
        def __init__(self, lock: object) -> None:
            self.lock = lock

        def __str__(self) -> str:
            return OwnText("x")

    record = FailureRecord.from_exception(LocalError(asyncio.Lock()), FailureKind.ENVIRONMENT)
    assert type(record.message) is str

    assert pickle.loads(pickle.dumps(record)) == record
