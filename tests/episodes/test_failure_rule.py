"""Rules of a user's own."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from artkit.episodes import FailureRule
from artkit.errors import ConfigurationError

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


class SandboxError(RuntimeError):
    """As a user's own world has them."""


class OwnClientError(Exception):
    """As clients have them that know no openai."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("no")
        self.__dict__.update(attributes)


def refusal(status: int, message: str = "no") -> openai.APIStatusError:
    return openai.APIStatusError(message, response=httpx.Response(status, request=REQUEST), body={"message": message})


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def in_context(error: BaseException, context: BaseException) -> BaseException:
    error.__context__ = context
    return error


GONE = SandboxError("sandbox 17 is gone")


@pytest.mark.parametrize(
    ("rule", "error", "matches"),
    [
        (FailureRule("environment", error=SandboxError), GONE, True),
        (FailureRule("environment", error=RuntimeError), GONE, True),
        (FailureRule("environment", error=(KeyError, SandboxError)), GONE, True),
        (FailureRule("environment", error=KeyError), GONE, False),
        (FailureRule("environment", pattern=r"sandbox \d+ is gone"), GONE, True),
        (FailureRule("environment", pattern="^is gone"), GONE, False),
        (FailureRule("environment", error=SandboxError, pattern="gone"), GONE, True),
        (FailureRule("environment", error=SandboxError, pattern="lost"), GONE, False),
        (FailureRule("infrastructure", status=403), refusal(403), True),
        (FailureRule("infrastructure", status={403, 404}), refusal(404), True),
        (FailureRule("infrastructure", status=403), refusal(401), False),
        (FailureRule("infrastructure", status=403), GONE, False),
        (FailureRule("limit", status=400, pattern="(?i)too long"), refusal(400, "Too long for me"), True),
        (FailureRule("limit", status=400, pattern="(?i)too long"), refusal(400, "what?"), False),
        (FailureRule("environment", status=503), OwnClientError(status_code=503), True),
        (FailureRule("environment", status=503), OwnClientError(response=SimpleNamespace(status_code=503)), True),
        (FailureRule("environment", status=503), OwnClientError(code="503", status=None), False),
    ],
)
def test_all_that_a_rule_names_must_hold(rule: FailureRule, error: BaseException, matches: bool) -> None:
    """What is not named may be anything."""
    assert rule.matches(error) is matches


@pytest.mark.parametrize(
    "error",
    [
        caused(RuntimeError("the tool failed"), GONE),
        in_context(RuntimeError("the tool failed"), GONE),
        caused(RuntimeError("a"), caused(RuntimeError("b"), GONE)),
        ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("x"), ExceptionGroup("h", [GONE])]),
    ],
)
def test_what_an_exception_came_from_counts_as_well(error: BaseException) -> None:
    """Libraries wrap what they meet, and a task group wraps all."""
    assert FailureRule("fatal", error=SandboxError, pattern="gone").matches(error)


def test_one_exception_of_the_chain_must_fit_alone() -> None:
    """The class of the one with the text of another is a failure that nobody has seen."""
    error = caused(RuntimeError("gone"), SandboxError("busy"))

    assert not FailureRule("fatal", error=SandboxError, pattern="gone").matches(error)


def test_an_exception_that_was_raised_from_none_came_from_nothing() -> None:
    """Whoever wrote it has said so."""
    error = in_context(RuntimeError("the tool failed"), GONE)
    error.__suppress_context__ = True

    assert not FailureRule("fatal", error=SandboxError).matches(error)


@pytest.mark.parametrize(
    ("rule_for", "waiting_for", "matches"),
    [(None, "model", True), ("model", "model", True), ("model", "environment", False), ("model", None, True)],
)
def test_a_rule_may_be_of_one_side_only(rule_for: Any, waiting_for: Any, matches: bool) -> None:
    """A `ConnectionError` comes from sandboxes, and from the model's server."""
    rule = FailureRule("fatal", error=ConnectionError, waiting_for=rule_for)

    assert rule.matches(ConnectionError(), waiting_for=waiting_for) is matches


def test_a_pattern_is_searched_for_in_the_whole_text() -> None:
    """What a record leaves out of a page of output may be the very words."""
    error = RuntimeError(f"{'a' * 5_000} out of memory {'z' * 5_000}")

    assert FailureRule("limit", pattern="out of memory").matches(error)


def test_an_exception_that_is_broken_itself_is_matched_all_the_same() -> None:
    """A second error while the first is sorted would stop the gather."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

        @property
        def response(self) -> Any:
            raise ZeroDivisionError

    error = BrokenError()

    assert FailureRule("environment", error=BrokenError).matches(error)
    assert not FailureRule("environment", pattern="door").matches(error)
    assert not FailureRule("environment", status=500).matches(error)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"kind": "weather", "error": OSError}, "kind='weather' is not a failure kind"),
        ({"kind": "tool", "error": OSError}, "kind='tool' is no kind that a rule can give"),
        ({"kind": "reward", "error": OSError}, "kind='reward' is no kind that a rule can give"),
        ({"kind": "fatal"}, "FailureRule('fatal') matches every failure"),
        ({"kind": "fatal", "error": "OSError"}, "error='OSError' is no class of exceptions"),
        ({"kind": "fatal", "error": int}, "error=<class 'int'> is no class of exceptions"),
        ({"kind": "fatal", "error": ()}, "error=() is no class of exceptions"),
        ({"kind": "fatal", "error": OSError()}, "error=OSError() is no class of exceptions"),
        ({"kind": "fatal", "status": 42}, "status=42 is no HTTP status"),
        ({"kind": "fatal", "status": "503"}, "status='503' is no HTTP status"),
        ({"kind": "fatal", "status": []}, "status=[] is no HTTP status"),
        ({"kind": "fatal", "pattern": ""}, "pattern='' is no regular expression"),
        ({"kind": "fatal", "pattern": "("}, "pattern='(' is no regular expression: missing ), unterminated subpattern at position 0"),
        ({"kind": "fatal", "error": OSError, "retries": -1}, "FailureRule(retries=-1) is no whole number of 0 or more"),
        ({"kind": "fatal", "error": OSError, "waiting_for": "reward"}, "waiting_for='reward' is nobody"),
        (
            {"kind": "fatal", "error": OSError, "waiting_for": "environment", "retries": 1},
            "retries=1 are of requests to the model, and the rule is of environments",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_work_is_refused_when_it_is_made(arguments: dict[str, Any], problem: str) -> None:
    """Not at the first failure, hours into the run."""
    with pytest.raises(ConfigurationError) as refused:
        FailureRule(**arguments)

    assert refused.value.problem == problem


def test_rules_are_values() -> None:
    """Policies that hold them are compared, and travel to other processes."""
    rule = FailureRule("limit", error=[OSError, KeyError], status=[503, 502], retries=4)
    alike = FailureRule("limit", error=(OSError, KeyError), status={502, 503}, retries=4)

    assert (rule, hash(rule)) == (alike, hash(alike))
    assert pickle.loads(pickle.dumps(rule)) == copy.deepcopy(rule) == rule
    assert repr(rule) == "FailureRule('limit', error=(OSError, KeyError), status=(502, 503), retries=4)"
    assert repr(FailureRule("fatal", error=OSError, pattern="x")) == "FailureRule('fatal', error=OSError, pattern='x')"
