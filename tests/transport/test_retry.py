"""One request, sent until there is a reply or the budget is spent."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artkit.errors import ConfigurationError
from artkit.testing import ChatServer, Reply
from artkit.transport import (
    Deadline,
    EmptyReplyError,
    OpenAISamplingClient,
    RetryPolicy,
    SamplingRequest,
    call_with_retry,
    complete_with_retry,
    is_context_overflow,
    is_fatal,
    status_code,
)
from artkit.transport.errors import RefusalReplyError
from artkit.transport.retry import _wait

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

REQUEST = SamplingRequest(model="scripted", messages=[{"role": "user", "content": "go"}])


class Waits(list[float]):
    """Waits for nothing, and remembers how long it should have."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def ask(script: list[Reply | str], *, max_retries: int = 3, **policy: Any) -> tuple[Any, int, ChatServer]:
    """Return the reply's text, the retries, and the server that was asked."""
    retries: list[None] = []
    async with ChatServer(script) as server:
        client = OpenAISamplingClient(server.model())
        try:
            completion = await complete_with_retry(
                client,
                REQUEST,
                max_retries=max_retries,
                policy=RetryPolicy(**{"sleep": Waits(), **policy}),
                on_retry=lambda: retries.append(None),
            )
        finally:
            await client.close()
    return completion.choices[0].message.content, len(retries), server


async def test_a_reply_at_once_takes_no_retry() -> None:
    """Counting starts after the first attempt."""
    text, retries, server = await ask(["hello"])

    assert (text, retries, len(server.requests)) == ("hello", 0, 1)


async def test_a_rate_limit_is_waited_out_for_at_least_the_time_asked_for() -> None:
    """Asking earlier is refused again, and counts against the limit."""
    waits = Waits()
    busy = Reply(status=429, headers={"Retry-After": "7"})

    text, retries, _ = await ask([busy, busy, "ok"], sleep=waits)

    assert (text, retries, len(waits)) == ("ok", 2, 2)
    assert all(7.0 <= wait_s <= 7.5 for wait_s in waits)


async def test_all_that_are_asked_for_the_same_wait_do_not_come_back_at_once() -> None:
    """A thousand rollouts that were refused together would be refused together again."""
    waits = Waits()

    await ask([Reply(status=429, headers={"Retry-After": "7"})] * 8 + ["ok"], max_retries=8, sleep=waits, max_wait_s=1)

    assert len(set(waits)) == 8


async def test_a_server_that_asks_for_too_long_a_wait_is_asked_earlier() -> None:
    """A run must not stand still for a day because a server says so."""
    waits = Waits()

    await ask([Reply(status=429, headers={"Retry-After": "86400"}), "ok"], sleep=waits, max_retry_after_s=60.0)

    assert [60.0 <= wait_s <= 60.5 for wait_s in waits] == [True]


async def test_a_spent_budget_raises_the_last_refusal() -> None:
    """The caller learns what the server said, not that retrying failed."""
    with pytest.raises(openai.RateLimitError, match="slow down"):
        await ask([Reply(status=429, error="slow down")] * 3, max_retries=2)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_cannot_succeed_is_asked_once(status: int) -> None:
    """Each further attempt would cost time and change nothing."""
    server = ChatServer([Reply(status=status), "never"])
    async with server:
        client = OpenAISamplingClient(server.model())
        with pytest.raises(openai.APIStatusError):
            await complete_with_retry(client, REQUEST, max_retries=3)
        await client.close()

    assert len(server.requests) == 1


@pytest.mark.parametrize("drop", ["before", "mid body"])
async def test_a_broken_connection_is_tried_again(drop: Any) -> None:
    """No answer says nothing about the request."""
    text, retries, _ = await ask([Reply("lost", drop=drop), "ok"])

    assert (text, retries) == ("ok", 1)


EMPTY = {
    "no choices": Reply(raw_body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}),
    "null choices": Reply(raw_body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": None}),
    "a null choice": Reply(raw_body={"id": "1", "choices": [None]}),
    "no message": Reply(raw_body={"id": "1", "choices": [{"index": 0, "finish_reason": "stop"}]}),
    "a text for a message": Reply(raw_body={"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": "hi"}]}),
    "cut off, and nobody counts": Reply(raw_body={"id": "1", "choices": [{"index": 0, "finish_reason": "length", "message": {}}]}),
    "null message": Reply(raw_body={"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": None}]}),
    "nothing in the message": Reply(""),
    "no JSON": Reply(raw_body="<html>gateway</html>"),
    "HTML": Reply(raw_body="<html>gateway</html>", headers={"Content-Type": "text/html"}),
}  # fmt: skip


# Some versions of ART dump each reply, and pydantic warns of what is not as OpenAI sends it.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize("reply", EMPTY.values(), ids=EMPTY)
async def test_a_reply_without_a_reply_in_it_is_asked_for_again(reply: Reply) -> None:
    """Providers send such things now and then; an episode must not break over one."""
    text, retries, _ = await ask([reply, "ok"])

    assert (text, retries) == ("ok", 1)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize("reply", EMPTY.values(), ids=EMPTY)
async def test_a_server_that_only_sends_empty_replies_is_named_as_the_cause(reply: Reply) -> None:
    """Not an IndexError somewhere in the rollout."""
    with pytest.raises(EmptyReplyError):
        await ask([reply] * 2, max_retries=1)


BROKEN_OFF = ["abort", "error", "ERROR", "network_error", "insufficient_system_resource", "timeout", "cancelled"]


@pytest.mark.parametrize("reason", BROKEN_OFF)
async def test_a_reply_that_its_server_broke_off_is_asked_for_again(reason: str) -> None:
    """Half a reply is no action of the model: it was about to go on."""
    text, retries, _ = await ask([Reply("I thin", finish_reason=reason), "ok"])

    assert (text, retries) == ("ok", 1)


async def test_a_server_that_only_breaks_off_is_named_with_what_it_says() -> None:
    """OpenRouter puts the failure of the server behind it beside the choice."""
    message = {"role": "assistant", "content": "I thin"}
    error = {"code": 502, "message": "upstream died"}
    choice = {"index": 0, "finish_reason": "error", "message": message, "error": error}

    with pytest.raises(EmptyReplyError, match=r"broke its reply off, finish_reason='error'.*upstream died"):
        await ask([Reply(raw_body={"id": "1", "choices": [choice]})], max_retries=0)


def broken_off(text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "error", "message": {"role": "assistant", "content": text}, **more}


OVERFLOWS = {
    "lmdeploy": {"choices": [broken_off("internal error happened, status code ResponseType.INPUT_LENGTH_ERROR")]},
    "lmdeploy old": {
        "choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": ""}}],
        "usage": {"prompt_tokens": 9000, "completion_tokens": 0, "total_tokens": 9000},
    },
    "openrouter": {"choices": [broken_off(error={"code": 400, "message": "maximum context length is 8192 tokens"})]},
    "openrouter, without a choice": {"error": {"code": 400, "message": "maximum context length is 8192 tokens"}},
    "old vllm": {"object": "error", "message": "This model's maximum context length is 8192 tokens", "code": 400},
}


@pytest.mark.parametrize("body", OVERFLOWS.values(), ids=OVERFLOWS)
async def test_an_overflow_may_come_as_a_reply(body: dict[str, Any]) -> None:
    """It comes back as it was, however often it is asked for."""
    server = ChatServer([Reply(raw_body={"id": "1", **body}), "never"])
    async with server:
        client = OpenAISamplingClient(server.model())
        with pytest.raises(EmptyReplyError) as caught:
            await complete_with_retry(client, REQUEST, max_retries=3)
        await client.close()

    assert (is_context_overflow(caught.value), len(server.requests)) == (True, 1)


@pytest.mark.parametrize(
    ("answer", "status", "attempts"),
    [
        ({"error": {"code": 429, "message": "free-models-per-min"}}, 429, 2),
        ({"error": {"code": 502, "message": "Provider returned error"}, "choices": None}, 502, 2),
        ({"error": {"code": 401, "message": "No auth credentials found"}}, 401, 1),
        ({"error": {"code": "402", "message": "Insufficient credits"}}, 402, 1),
        ({"object": "error", "message": "bad template", "type": "BadRequestError", "code": 400}, 400, 1),
        ({"error": "worker died"}, None, 2),
        ({"error": {"code": "server_error", "message": "worker died"}}, None, 2),
    ],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
async def test_a_refusal_may_come_as_a_reply(answer: dict[str, Any], status: int | None, attempts: int) -> None:
    """Gateways answer 200 before they know; what they say then is the real cause, and a refused key stays refused."""
    server = ChatServer(lambda body: Reply(raw_body={"id": "1", **answer}))
    async with server:
        client = OpenAISamplingClient(server.model())
        with pytest.raises(EmptyReplyError) as caught:
            await complete_with_retry(client, REQUEST, max_retries=1, policy=RetryPolicy(sleep=Waits()))
        await client.close()

    said = answer.get("error", answer)
    words = said if isinstance(said, str) else said["message"]
    assert (status_code(caught.value), len(server.requests)) == (status, attempts)
    assert is_fatal(caught.value) is (status in {401, 402})
    assert words in str(caught.value)


def test_a_refusal_that_came_as_a_reply_survives_pickling() -> None:
    """Rollouts may be played in other processes."""
    error = RefusalReplyError("no", "wait", 429)

    copied = pickle.loads(pickle.dumps(error))

    assert (str(copied), copied.status) == (str(error), 429)


@pytest.mark.parametrize("logprobs", ["none", [], {"content": "none"}])
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
async def test_odd_logprobs_cost_no_reply(logprobs: Any) -> None:
    """The OpenAI client checks nothing of what a server sends."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}

    text, retries, _ = await ask([Reply(raw_body={"id": "1", "choices": [{**choice, "logprobs": logprobs}]})])

    assert (text, retries) == ("hello", 0)


async def test_what_the_model_says_before_a_failure_is_no_overflow() -> None:
    """It may well talk about the maximum context length."""
    text, _, _ = await ask([Reply("The maximum context length", finish_reason="error"), "ok"])

    assert text == "ok"


async def test_discarded_replies_are_handed_over_for_their_cost() -> None:
    """Their tokens were paid for."""
    discarded: list[ChatCompletion] = []
    paid = Reply("", usage={"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5})
    async with ChatServer([paid, "ok"]) as server:
        client = OpenAISamplingClient(server.model())
        policy = RetryPolicy(sleep=Waits())
        await complete_with_retry(client, REQUEST, max_retries=1, policy=policy, on_discard=discarded.append)
        await client.close()

    assert [completion.usage.total_tokens for completion in discarded if completion.usage] == [5]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(tool_calls=[("look", {})]),
        Reply(reasoning="let me think"),
        Reply(refusal="I must not"),
        # The policy sampled its end token first: an action, which asking again would hide from training.
        Reply("", token_ids=[3], logprobs=[-0.1]),
        # Where a server keeps the reasoning to itself, there may be nothing else.
        Reply("", finish_reason="length", usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
    ],
    ids=["tool call", "reasoning", "refusal", "sampled nothing", "reasoned in secret"],
)
async def test_a_reply_without_text_can_still_be_a_reply(reply: Reply) -> None:
    """Asking again would throw a true answer away."""
    _, retries, _ = await ask([reply])

    assert retries == 0


async def test_a_slow_attempt_is_given_up_and_tried_again() -> None:
    """One stuck request must not hold the episode."""
    request = SamplingRequest(model="scripted", messages=REQUEST.messages, timeout_s=0.5)
    async with ChatServer([Reply("late", delay_s=30.0), "ok"]) as server:
        client = OpenAISamplingClient(server.model())
        policy = RetryPolicy(sleep=Waits())
        completion = await complete_with_retry(client, request, max_retries=1, policy=policy)
        await client.close()

    assert (completion.choices[0].message.content, len(server.requests)) == ("ok", 2)


async def test_cancelling_ends_the_wait_between_attempts() -> None:
    """A cancelled run must not sit out a server's Retry-After."""
    waiting = asyncio.Event()

    async def wait_for_ever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ask([Reply(status=503), "never"], sleep=wait_for_ever))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_attempt_is_not_taken_for_a_failure() -> None:
    """A cancellation is an order, not an error to retry."""

    class Stuck:
        calls = 0

        async def complete(self, request: SamplingRequest) -> ChatCompletion:
            self.calls += 1
            started.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None: ...

    started, client = asyncio.Event(), Stuck()
    task = asyncio.create_task(complete_with_retry(client, REQUEST, max_retries=3))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert client.calls == 1


@given(attempt=st.integers(1, 60), initial_s=st.floats(0, 5), max_s=st.floats(0, 60))
def test_the_waits_grow_and_stay_below_their_bound(attempt: int, initial_s: float, max_s: float) -> None:
    """Neither a hammer nor a coma."""
    from tenacity import RetryCallState

    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    wait_s = _wait(RetryPolicy(initial_wait_s=initial_s, max_wait_s=max_s))(state)

    assert min(max_s, initial_s * 2 ** (attempt - 1)) <= wait_s <= max_s


@pytest.mark.parametrize("name", ["initial_wait_s", "max_wait_s", "max_retry_after_s", "budget_s"])
def test_a_negative_wait_is_refused(name: str) -> None:
    """Found when it is set, not at the first retry."""
    with pytest.raises(ConfigurationError, match=name):
        RetryPolicy(**{name: -1.0})


async def test_a_negative_budget_is_refused() -> None:
    """It would mean no attempt at all."""
    with pytest.raises(ConfigurationError, match="max_retries"):
        await ask(["hi"], max_retries=-1)


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    """A retry that outlives its caller would ask on in the dark."""
    yield
    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


async def test_any_call_can_be_retried() -> None:
    """Judges are asked by the same rules as models."""
    answers: list[Any] = [ConnectionResetError("gone"), TimeoutError("slow"), "said"]

    async def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await call_with_retry(call, max_retries=2, policy=RetryPolicy(initial_wait_s=0)) == "said"


async def test_the_retries_of_a_call_that_failed_for_good_are_told_too() -> None:
    """They were paid for; a count that comes with the result is lost with it."""
    retries: list[int] = []

    async def call() -> str:
        raise TimeoutError("slow")

    with pytest.raises(TimeoutError):
        await call_with_retry(
            call, max_retries=2, policy=RetryPolicy(initial_wait_s=0), on_retry=lambda: retries.append(1)
        )

    assert retries == [1, 1]


async def test_the_caller_may_decide_what_is_tried_again() -> None:
    """It knows its server; it is given each failure, and those that were tried again before."""
    asked: list[tuple[BaseException, list[BaseException]]] = []
    failures = [ValueError("a"), ValueError("b"), KeyError("c")]

    async def call() -> str:
        raise failures[len(asked)]

    def may_retry(error: BaseException, before: Sequence[BaseException]) -> bool:
        asked.append((error, list(before)))
        return isinstance(error, ValueError)

    with pytest.raises(KeyError):
        await call_with_retry(call, max_retries=0, policy=RetryPolicy(initial_wait_s=0), may_retry=may_retry)

    assert asked == [(failures[0], []), (failures[1], failures[:1]), (failures[2], failures[:2])]


async def test_no_caller_decides_over_a_cancellation() -> None:
    """It is an order, also for a rule that matches everything."""
    calls: list[int] = []

    async def call() -> str:
        calls.append(1)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await call_with_retry(call, max_retries=9, may_retry=lambda error, before: True)

    assert calls == [1]


@pytest.mark.parametrize(("budget_s", "tries"), [(6.0, 1), (7.0, 2), (13.9, 2), (14.0, 3), (None, 4)])
async def test_no_attempt_begins_after_the_budget(budget_s: float | None, tries: int) -> None:
    """A wait that leads nowhere is not begun, and what the server said is told at once."""
    calls: list[int] = []
    waits = Waits()

    async def call() -> str:
        calls.append(1)
        raise TimeoutError("slow")

    policy = RetryPolicy(initial_wait_s=7, max_wait_s=7, budget_s=budget_s, sleep=waits, clock=lambda: sum(waits))
    with pytest.raises(TimeoutError):
        await call_with_retry(call, max_retries=3, policy=policy)

    assert len(calls) == tries


async def test_what_ends_the_retries_came_from_the_last_failure() -> None:
    """A deadline that passes while a busy server is waited for is not what went wrong."""
    busy = ConnectionError("busy")

    async def refuse() -> None:
        raise busy

    async def wait_for_ever(_: float) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as late:
        async with Deadline(0.01, lambda: "too late"):
            await call_with_retry(refuse, max_retries=3, policy=RetryPolicy(sleep=wait_for_ever))

    assert isinstance(late.value.__cause__, asyncio.CancelledError)
    assert late.value.__cause__.__cause__ is busy
