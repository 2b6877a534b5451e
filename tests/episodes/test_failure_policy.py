"""Whose failure it was, and what follows."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from artkit.episodes import FailureKind, FailurePolicy
from artkit.errors import ConfigurationError

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def refusal(status: int, message: str = "no") -> openai.APIStatusError:
    body = {"message": message}
    return openai.APIStatusError(message, response=httpx.Response(status, request=REQUEST), body=body)


OVERFLOW = refusal(400, "maximum context length is 8192 tokens, request has 8195")


@pytest.mark.parametrize(
    ("error", "waiting_for", "kind"),
    [
        (OVERFLOW, "model", FailureKind.LIMIT),
        (refusal(400), "model", FailureKind.INFRASTRUCTURE),
        (refusal(429), "model", FailureKind.INFRASTRUCTURE),
        (refusal(503), "model", FailureKind.INFRASTRUCTURE),
        (openai.APIConnectionError(request=REQUEST), "model", FailureKind.INFRASTRUCTURE),
        (TimeoutError("late"), "model", FailureKind.INFRASTRUCTURE),
        (refusal(401), "model", FailureKind.FATAL),
        (refusal(403), "model", FailureKind.FATAL),
        (refusal(404), "model", FailureKind.FATAL),
        (TimeoutError("late"), "environment", FailureKind.ENVIRONMENT),
        (ConnectionError("the container is gone"), "environment", FailureKind.ENVIRONMENT),
        (refusal(401), "environment", FailureKind.ENVIRONMENT),
        (OVERFLOW, "environment", FailureKind.ENVIRONMENT),
        (refusal(401), "reward", FailureKind.REWARD),
    ],
)
def test_a_failure_belongs_to_whom_the_episode_waited_for(error: Exception, waiting_for: Any, kind: str) -> None:
    """A 401 of a tool's own service is no reason to stop the run; one of the model's server is."""
    assert FailurePolicy().classify(error, waiting_for=waiting_for) == kind


def test_a_lost_inference_server_is_fatal_whoever_met_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """ART says it for good: to go on would turn an outage into training on nothing."""

    class LocalServingUnavailableError(RuntimeError):
        pass

    module = SimpleNamespace(LocalServingUnavailableError=LocalServingUnavailableError)
    monkeypatch.setitem(sys.modules, "art.errors", module)

    kinds = {FailurePolicy().classify(LocalServingUnavailableError(), waiting_for=who) for who in ("model", "reward")}
    assert kinds == {FailureKind.FATAL}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (FailurePolicy(), {"tool", "limit"}),
        (FailurePolicy(keep={"environment"}), {"tool", "limit", "environment"}),
        (FailurePolicy(keep=[FailureKind.INFRASTRUCTURE, "limit"]), {"tool", "limit", "infrastructure"}),
    ],
)
def test_tool_and_limit_stay_in_the_group_and_what_the_caller_names(policy: FailurePolicy, kept: set[str]) -> None:
    """The policy is the caller's choice; what the model did within its limits is always its own."""
    assert {str(kind) for kind in FailureKind if policy.keeps(kind)} == kept


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"keep": {"weather"}}, "keep='weather' is not a failure kind"),
        ({"keep": {"reward"}}, "keep='reward': such an episode has no reward to train on"),
        ({"keep": {"fatal"}}, "keep='fatal': such an episode has no reward to train on"),
        ({"keep": "environment"}, "keep='environment' is not a set of kinds"),
        ({"max_retries": -1}, "max_retries=-1 is negative"),
        ({"rollout_retries": -1}, "rollout_retries=-1 is negative"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(settings: dict[str, Any], problem: str) -> None:
    """Nothing has been spent yet."""
    with pytest.raises(ConfigurationError) as refused:
        FailurePolicy(**settings)

    assert refused.value.problem == problem


@pytest.mark.parametrize(
    ("kind", "after", "replays"),
    [
        ("environment", 0, True),
        ("infrastructure", 1, True),
        ("environment", 2, False),
        ("limit", 0, False),
        ("tool", 0, False),
        ("fatal", 0, False),
    ],
)
def test_an_episode_is_played_again_only_where_that_may_help(kind: str, after: int, replays: bool) -> None:
    """A refused key is refused again, and what the model did within its limits is no accident."""
    assert FailurePolicy(rollout_retries=2).replays(FailureKind(kind), after=after) is replays
