"""The cursor."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.scenarios import Cursor

cursors = st.builds(Cursor, st.integers(0, 9), st.integers(0, 9))


@given(cursors)
def test_cursor_survives_json(cursor: Cursor) -> None:
    """The journal keeps it as JSON."""
    assert Cursor.from_dict(json.loads(json.dumps(cursor.as_dict()))) == cursor


def test_a_cursor_keeps_the_fingerprint_of_what_was_read() -> None:
    """It says nothing about the place: two cursors of one place are equal."""
    cursor = Cursor(0, 4, fingerprint="abc")

    assert Cursor.from_dict(json.loads(json.dumps(cursor.as_dict()))).fingerprint == "abc"
    assert cursor == Cursor(0, 4)
    assert Cursor(0, 4).as_dict() == {"epoch": 0, "position": 4}
    with pytest.raises(ConfigurationError, match=r"fingerprint=7\) is no text"):
        Cursor.from_dict({"epoch": 0, "position": 4, "fingerprint": 7})


@given(cursors, cursors)
def test_cursors_are_ordered_as_the_run_goes(left: Cursor, right: Cursor) -> None:
    """An epoch outweighs every position."""
    assert (left < right) == ((left.epoch, left.position) < (right.epoch, right.position))


@pytest.mark.parametrize("values", [(-1, 0), (0, -1), (0.0, 0), (0, True), ("0", 0), (None, 0)])
def test_cursor_refuses_what_is_no_place(values) -> None:
    """A damaged journal must not send a run somewhere."""
    with pytest.raises(ConfigurationError, match="no whole number of 0 or more"):
        Cursor(*values)


@pytest.mark.parametrize("data", [{}, {"epoch": 0}, {"epoch": 0, "position": 0, "step": 1}])
def test_cursor_refuses_missing_and_unknown_keys(data) -> None:
    """Half a cursor is not the start of the data."""
    with pytest.raises(ConfigurationError, match="is no cursor"):
        Cursor.from_dict(data)
