"""When failed rollouts stop a gather."""

from __future__ import annotations

import dataclasses

import pytest

from artkit.episodes import FailureKind, FailureRecord
from artkit.errors import AllRolloutsFailedError, OutageError
from artkit.rollouts.failure_budget import FailureBudget

GONE = ConnectionError("refused")
LOST = FailureRecord(kind=FailureKind.INFRASTRUCTURE, type="ConnectionError", message="refused")
BROKEN = FailureRecord(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'door'")


def test_the_first_cause_is_named_and_every_kind_is_counted() -> None:
    """The first failure is most often the one that explains the rest."""
    budget = FailureBudget(3, None)
    budget.fail(BROKEN, KeyError("door"))
    budget.fail(LOST)

    with pytest.raises(AllRolloutsFailedError) as stopped:
        budget.fail(LOST)

    problem = "3/3 rollouts failed (1 environment, 2 infrastructure); the first: KeyError: 'door'"
    assert (stopped.value.problem, type(stopped.value.__cause__)) == (problem, KeyError)


def test_the_line_that_failed_first_is_named_and_where_the_tracebacks_are() -> None:
    """A KeyError alone says nothing, and playing one scenario again may not fail again."""
    trace = 'Traceback (most recent call last):\n  File "/srv/game.py", line 12, in step\n    self.doors["door"]\n'
    record = dataclasses.replace(BROKEN, traceback=f"{trace}KeyError: 'door'\n")

    with pytest.raises(AllRolloutsFailedError) as stopped:
        FailureBudget(1, None).fail(record, KeyError("door"))

    problem = "1/1 rollouts failed (1 environment); the first: KeyError: 'door' (game.py:12 in step)"
    assert stopped.value.problem == problem
    assert "`failure.traceback`" in stopped.value.hint
    assert "`group.exceptions`" in stopped.value.hint


def test_connection_failures_in_a_row_are_counted_over_other_news() -> None:
    """An episode that broke off says nothing of whether the server can be reached now; one that ended well does."""
    budget = FailureBudget(1000, None)
    for _ in range(15):
        budget.fail(LOST, GONE, GONE)
    budget.fail(LOST)
    budget.succeed()
    for _ in range(15):
        budget.fail(LOST, GONE, GONE)
    budget.fail(BROKEN)

    with pytest.raises(OutageError, match="16 rollouts in a row"):
        budget.fail(LOST, GONE, GONE)


def test_a_connection_that_somebody_else_lost_is_no_outage_of_the_model() -> None:
    """A container that cannot be reached says nothing of the model's server."""
    budget = FailureBudget(1000, None)

    for _ in range(100):
        budget.fail(BROKEN, GONE)
