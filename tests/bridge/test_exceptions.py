"""ART's own exceptions: the record in a group, and the loss of the inference server."""

from __future__ import annotations

from collections.abc import Callable

import art
import art.errors
import pytest

from artkit.bridge import group_exception, is_serving_unavailable
from artkit.episodes import FailureKind, FailureRecord


class LocalServingUnavailableError(RuntimeError):
    """ART's own from 0.5.23 on; 0.5.18 has none, so these tests lend it one."""


@pytest.fixture(autouse=True)
def _an_art_that_has_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(art.errors, "LocalServingUnavailableError"):
        monkeypatch.setattr(art.errors, "LocalServingUnavailableError", LocalServingUnavailableError, raising=False)


def gone() -> Exception:
    return art.errors.LocalServingUnavailableError("the server is gone")


def caused_by(cause: BaseException) -> Exception:
    error = RuntimeError("the rollout failed")
    error.__cause__ = cause
    return error


def while_handling(context: BaseException) -> Exception:
    error = RuntimeError("another one")
    error.__context__ = context
    return error


def test_a_failure_joins_a_group_as_art_records_exceptions() -> None:
    """ART's log and exception_rate count it, and its text is kept."""
    record = FailureRecord(
        kind=FailureKind.INFRASTRUCTURE, type="TimeoutError", message="too slow", traceback="Traceback…"
    )
    group = art.TrajectoryGroup([])
    group.exceptions = [group_exception(record)]

    assert [(each.type, each.message, each.traceback) for each in group.exceptions] == [
        ("TimeoutError", "too slow", "Traceback…")
    ]


@pytest.mark.parametrize(
    "wrap",
    [lambda error: error, caused_by, while_handling, lambda error: ExceptionGroup("many", [ValueError(), error])],
    ids=["itself", "as the cause", "as the context", "in a group"],
)
def test_the_loss_of_the_server_is_found_wherever_it_is_in_the_chain(
    wrap: Callable[[BaseException], BaseException],
) -> None:
    """Users wrap exceptions; an outage must not look like a bad rollout."""
    assert is_serving_unavailable(wrap(gone()))


def test_a_context_that_was_suppressed_does_not_count() -> None:
    """`raise … from None` says that the one has nothing to do with the other."""
    error = while_handling(gone())
    error.__suppress_context__ = True

    assert not is_serving_unavailable(error)


def test_any_other_error_is_no_loss_of_the_server() -> None:
    """A cycle in the causes included, which a walk must survive."""
    error = caused_by(ValueError())
    assert error.__cause__ is not None
    error.__cause__.__cause__ = error

    assert not is_serving_unavailable(error)
