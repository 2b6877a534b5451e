"""When failed rollouts stop a gather."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import openai
import pytest

from artkit.episodes import FailureKind, FailureRecord
from artkit.errors import AllRolloutsFailedError, ConfigurationError, OutageError
from artkit.rollouts.failure_budget import FailureBudget

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
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

    problem = (
        "3/3 rollouts failed (1 environment, 2 infrastructure); the first: KeyError: 'door'; "
        "all of them: 2 x infrastructure: ConnectionError: refused; 1 x environment: KeyError: 'door'"
    )
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


def test_a_single_cause_is_told_once() -> None:
    """The message is long enough."""
    budget = FailureBudget(2, None)
    budget.fail(BROKEN)

    with pytest.raises(AllRolloutsFailedError) as stopped:
        budget.fail(BROKEN)

    assert stopped.value.problem == "2/2 rollouts failed (2 environment); the first: KeyError: 'door'"


def test_rollouts_that_replace_others_can_still_succeed() -> None:
    """Only when they have failed too, no rollout is left."""
    budget = FailureBudget(1, None)
    budget.add(1)
    budget.fail(BROKEN)

    with pytest.raises(AllRolloutsFailedError, match="2/2 rollouts failed"):
        budget.fail(BROKEN)


@pytest.mark.parametrize("max_exceptions", [1, 0.5])
def test_rollouts_that_replace_others_widen_no_budget(max_exceptions: float) -> None:
    """Or a broken environment would be paid for again and again."""
    budget = FailureBudget(2, max_exceptions)
    budget.fail(BROKEN)
    budget.add(2)

    with pytest.raises(AllRolloutsFailedError, match="2/4 rollouts failed"):
        budget.fail(BROKEN)


def test_connection_failures_in_a_row_are_counted_over_other_news() -> None:
    """An environment that broke says nothing of whether the server can be reached; an episode that ended well does."""
    budget = FailureBudget(1000, None)
    for _ in range(15):
        budget.fail(LOST, GONE, GONE)
    budget.fail(LOST)
    budget.unanswered.note_reply()
    for _ in range(15):
        budget.fail(LOST, GONE, GONE)
    budget.fail(BROKEN)
    budget.fail(BROKEN, KeyError("door"))
    budget.fail(LOST, TimeoutError(), TimeoutError())

    with pytest.raises(OutageError, match="16 rollouts in a row") as stopped:
        budget.fail(LOST, GONE, GONE)

    assert stopped.value.__cause__ is GONE


def test_a_lost_connection_of_an_episode_that_is_kept_counts_towards_an_outage_and_nothing_else() -> None:
    """Whether it is trained on is another question than whether the server is there."""
    budget = FailureBudget(1000, 0)
    for _ in range(15):
        budget.keep(LOST, GONE)
    budget.keep(LOST)

    with pytest.raises(OutageError, match="16 rollouts in a row"):
        budget.keep(LOST, GONE)


@pytest.mark.parametrize("max_exceptions", [-1, 1.5, float("nan"), "3", True])
def test_a_budget_that_cannot_be_kept_is_refused(max_exceptions: Any) -> None:
    """Nothing is more than NaN: it would have let everything fail."""
    with pytest.raises(ConfigurationError, match="is neither a count nor a share"):
        FailureBudget(8, max_exceptions)


def test_a_refusal_is_an_answer() -> None:
    """A server that is busy is there."""
    busy = openai.RateLimitError("busy", response=httpx.Response(429, request=REQUEST), body=None)
    budget = FailureBudget(1000, None)

    for _ in range(10):
        for _ in range(15):
            budget.fail(LOST, GONE, GONE)
        budget.fail(LOST, busy, busy)


@pytest.mark.parametrize(("rollouts", "who"), [(1, "the only rollout"), (8, "8 rollouts in a row")])
def test_a_small_gather_that_finds_no_connection_at_all_met_an_outage(rollouts: int, who: str) -> None:
    """It has too few rollouts for a long row, and what is to be mended is the server."""
    budget = FailureBudget(rollouts, None)
    for _ in range(rollouts - 1):
        budget.fail(LOST, GONE, GONE)

    with pytest.raises(OutageError, match=f"{who} found no connection"):
        budget.fail(LOST, GONE, GONE)


def test_a_small_gather_in_which_not_all_was_the_connection_just_failed() -> None:
    """The environment is to be looked at as well."""
    budget = FailureBudget(3, None)
    budget.fail(LOST, GONE, GONE)
    budget.fail(BROKEN)

    with pytest.raises(AllRolloutsFailedError, match="2 x infrastructure"):
        budget.fail(LOST, GONE, GONE)


def test_a_connection_that_somebody_else_lost_is_no_outage_of_the_model() -> None:
    """A container that cannot be reached says nothing of the model's server."""
    budget = FailureBudget(1000, None)

    for _ in range(100):
        budget.fail(BROKEN, GONE)


@pytest.mark.parametrize(
    ("request_error", "hint"), [(GONE, "check the model's name"), (None, "change the rule that calls it fatal")]
)
def test_a_fatal_failure_stops_at_once_and_says_what_to_look_at(request_error: BaseException | None, hint: str) -> None:
    """A license that has run out is not mended by checking the model's name."""
    record = dataclasses.replace(BROKEN, kind=FailureKind.FATAL)

    with pytest.raises(OutageError, match="no other can escape: KeyError: 'door'") as stopped:
        FailureBudget(1000, None).fail(record, GONE, request_error)

    assert hint in stopped.value.hint
