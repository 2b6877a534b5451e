"""Whose failure it was, and what follows."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.episodes import FailureKind, FailurePolicy, FailureRule
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
        ({"keep": None}, "keep=None is not a set of kinds"),
        ({"max_retries": -1}, "FailurePolicy(max_retries=-1) is no whole number of 0 or more"),
        ({"max_retries": 1.5}, "FailurePolicy(max_retries=1.5) is no whole number of 0 or more"),
        ({"rollout_retries": -1}, "FailurePolicy(rollout_retries=-1) is no whole number of 0 or more"),
        ({"rollout_retries": {"weather": 1}}, "rollout_retries='weather' is not a failure kind"),
        ({"rollout_retries": {"limit": 1}}, "rollout_retries='limit': such an episode would only fail again"),
        (
            {"rollout_retries": {"environment": -1}},
            "FailurePolicy(rollout_retries['environment']=-1) is no whole number of 0 or more",
        ),
        ({"refills": -1}, "FailurePolicy(refills=-1) is no whole number of 0 or more"),
        ({"retry_budget_s": 0}, "FailurePolicy(retry_budget_s=0) is no positive finite number"),
        ({"rules": FailureRule("limit", status=413)}, "rules=FailureRule('limit', status=413) is no list of rules"),
        ({"rules": ["limit"]}, "rules=['limit'] is no list of rules"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(settings: dict[str, Any], problem: str) -> None:
    """Nothing has been spent yet."""
    with pytest.raises(ConfigurationError) as refused:
        FailurePolicy(**settings)

    assert refused.value.problem == problem


TWICE = FailurePolicy(rollout_retries=2)
BY_KIND = FailurePolicy(rollout_retries={"environment": 2, FailureKind.INFRASTRUCTURE: 1})


@pytest.mark.parametrize(
    ("policy", "kind", "after", "replays"),
    [
        (FailurePolicy(), "environment", [], False),
        (TWICE, "environment", [], True),
        (TWICE, "infrastructure", ["environment"], True),
        (TWICE, "environment", ["environment", "infrastructure"], False),
        (TWICE, "limit", [], False),
        (TWICE, "tool", [], False),
        (TWICE, "fatal", [], False),
        (BY_KIND, "environment", ["environment", "infrastructure"], True),
        (BY_KIND, "environment", ["environment", "environment"], False),
        (BY_KIND, "infrastructure", ["environment", "environment"], True),
        (BY_KIND, "infrastructure", ["infrastructure"], False),
        (BY_KIND, "limit", [], False),
        (FailurePolicy(rollout_retries={"environment": 1}), "infrastructure", [], False),
    ],
)
def test_an_episode_is_played_again_only_where_that_may_help(
    policy: FailurePolicy, kind: str, after: list[str], replays: bool
) -> None:
    """A refused key is refused again, and what the model did within its limits is no accident."""
    assert policy.replays(FailureKind(kind), after=[FailureKind(name) for name in after]) is replays


@pytest.mark.parametrize(
    ("refills", "left", "after", "count"),
    [
        (0, ["environment"], 0, 0),
        (2, [], 0, 0),
        (2, ["environment"], 0, 1),
        (2, ["environment", "infrastructure", "environment"], 0, 2),
        (2, ["environment"], 1, 0),
        (2, ["environment", "environment"], 1, 1),
        (2, ["environment"] * 4, 2, 0),
        (2, ["limit", "reward", "fatal", "tool"], 0, 0),
    ],
)
def test_members_that_left_by_accident_are_replaced(refills: int, left: list[str], after: int, count: int) -> None:
    """A prompt that is too long is too long for the next one, and a judge that fails fails the next one too."""
    assert FailurePolicy(refills=refills).refill_count(left, after=after) == count


@given(refills=st.integers(0, 9), fates=st.lists(st.sampled_from(list(FailureKind)), max_size=40))
def test_no_group_is_refilled_more_often_than_allowed(refills: int, fates: list[FailureKind]) -> None:
    """Each further one may fail as well."""
    policy, started = FailurePolicy(refills=refills), 0
    for number in range(1, len(fates) + 1):
        started += policy.refill_count(fates[:number], after=started)

    accidents = sum(kind in {FailureKind.ENVIRONMENT, FailureKind.INFRASTRUCTURE} for kind in fates)
    assert started == min(refills, accidents)


class SandboxError(RuntimeError):
    """As a user's own world has them."""


RULES = [
    FailureRule("fatal", error=SandboxError, pattern="license"),
    FailureRule("infrastructure", error=SandboxError),
    FailureRule("limit", status=400, pattern="(?i)too long for me"),
    FailureRule("infrastructure", status=404),
    FailureRule("limit", error=TimeoutError, waiting_for="environment"),
]


@pytest.mark.parametrize(
    ("error", "waiting_for", "kind"),
    [
        (SandboxError("no license"), "environment", FailureKind.FATAL),
        (SandboxError("gone"), "environment", FailureKind.INFRASTRUCTURE),
        (ExceptionGroup("g", [SandboxError("gone")]), "environment", FailureKind.INFRASTRUCTURE),
        (refusal(400, "Too long for me"), "model", FailureKind.LIMIT),
        (refusal(404), "model", FailureKind.INFRASTRUCTURE),
        (TimeoutError("late"), "environment", FailureKind.LIMIT),
        (TimeoutError("late"), "model", FailureKind.INFRASTRUCTURE),
        (refusal(401), "model", FailureKind.FATAL),
        (SandboxError("no license"), "reward", FailureKind.REWARD),
    ],
)
def test_the_first_rule_that_matches_comes_before_the_table(error: Exception, waiting_for: Any, kind: str) -> None:
    """Whoever wrote the environment knows what its errors mean; what no rule is of is judged as ever."""
    assert FailurePolicy(rules=RULES).classify(error, waiting_for=waiting_for) == kind


BUSY, REFUSED, BROKEN_WIRE = refusal(429), refusal(400), openai.APIConnectionError(request=REQUEST)
PATIENT = FailurePolicy(max_retries=1, rules=[FailureRule("infrastructure", status=429, retries=3)])


@pytest.mark.parametrize(
    ("policy", "error", "after", "resends"),
    [
        (FailurePolicy(), BUSY, [], True),
        (FailurePolicy(), BUSY, [BUSY, BROKEN_WIRE], True),
        (FailurePolicy(), BUSY, [BUSY, BROKEN_WIRE, BUSY], False),
        (FailurePolicy(), REFUSED, [], False),
        (FailurePolicy(), refusal(401), [], False),
        (FailurePolicy(max_retries=0), BUSY, [], False),
        (PATIENT, BUSY, [BUSY, BUSY], True),
        (PATIENT, BUSY, [BUSY, BUSY, BUSY], False),
        (PATIENT, BROKEN_WIRE, [BUSY, BUSY, BUSY], True),
        (PATIENT, BROKEN_WIRE, [BROKEN_WIRE], False),
        (PATIENT, BUSY, [BROKEN_WIRE], True),
        (FailurePolicy(rules=[FailureRule("infrastructure", status=400, retries=1)]), REFUSED, [], True),
        (FailurePolicy(rules=[FailureRule("infrastructure", status=400)]), REFUSED, [], False),
        (FailurePolicy(rules=[FailureRule("infrastructure", status=429)]), BUSY, [BUSY], True),
        (FailurePolicy(rules=[FailureRule("fatal", status=429)]), BUSY, [], False),
        (FailurePolicy(rules=[FailureRule("limit", status=429)]), BUSY, [], False),
        (FailurePolicy(rules=[FailureRule("fatal", status=429, retries=1)]), BUSY, [], True),
        (FailurePolicy(rules=[FailureRule("fatal", status=429, waiting_for="environment")]), BUSY, [], True),
    ],
)
def test_a_request_is_sent_again_as_often_as_its_failures_allow(
    policy: FailurePolicy, error: Exception, after: list[Exception], resends: bool
) -> None:
    """A rule's own number counts its own failures: much patience with a rate limit is none with a broken wire."""
    assert policy.resends(error, after) is resends


def test_policies_are_values() -> None:
    """The rollouts of a mixture are compared by them, and they travel to other processes."""
    policy = FailurePolicy(keep=["environment"], rollout_retries={"environment": 1}, rules=RULES, refills=2)
    alike = FailurePolicy(
        keep={FailureKind.ENVIRONMENT}, rollout_retries={FailureKind.ENVIRONMENT: 1}, rules=tuple(RULES), refills=2
    )

    assert (policy, hash(policy)) == (alike, hash(alike))
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == dataclasses.replace(policy) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (FailurePolicy(), "FailurePolicy()"),
        (
            FailurePolicy(keep={"infrastructure", "environment"}),
            "FailurePolicy(keep={'environment', 'infrastructure'})",
        ),
        (
            FailurePolicy(rollout_retries={"environment": 1}, rules=[FailureRule("limit", status=413)]),
            "FailurePolicy(rollout_retries={'environment': 1}, rules=(FailureRule('limit', status=413),))",
        ),
    ],
)
def test_a_policy_tells_what_differs_from_the_default(policy: FailurePolicy, text: str) -> None:
    """It stands in the repr of every rollout."""
    assert repr(policy) == text
