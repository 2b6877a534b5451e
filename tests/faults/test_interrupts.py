"""Ctrl-C in a program of its own, with many rollouts under way."""

from __future__ import annotations

import pytest
from interrupt import Ending, interrupt

pytestmark = pytest.mark.timeout(240)  # it imports ART in a process of its own

ROLLOUTS = 512


@pytest.fixture(scope="module")
def ending() -> Ending:
    """How a run of 512 rollouts ends that would take 60 s more, in Python's development mode."""
    return interrupt(ROLLOUTS, options=("-X", "dev", "-W", "error::ResourceWarning"))


def test_ctrl_c_ends_a_run_of_many_rollouts_soon(ending: Ending) -> None:
    """People press it again after a few seconds, and then reach for `kill -9`."""
    assert ending.process_s < 10


def test_every_environment_was_closed_once(ending: Ending) -> None:
    """Each may be a container that somebody pays for."""
    assert ending.closings == {1: ROLLOUTS}


def test_the_exit_status_says_that_it_was_interrupted(ending: Ending) -> None:
    """A shell script stops then, where it would go on after an error."""
    assert ending.status == 130


def test_no_thread_is_left(ending: Ending) -> None:
    """One that is no daemon keeps the process alive."""
    assert [name for name in ending.threads if name.startswith("artkit")] == []


def test_what_is_printed_is_short_and_warns_of_nothing(ending: Ending) -> None:
    """A page for each of 512 rollouts hides what matters; a socket that was not closed would be warned of here."""
    lines = ending.errors.splitlines()

    assert lines[-1] == "KeyboardInterrupt"
    assert len(lines) < 40
    assert [line for line in lines if "Warning" in line or "never retrieved" in line or "destroyed" in line] == []
