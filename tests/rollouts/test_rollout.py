"""One scenario, played once by a model behind a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from artkit.bridge import make_trainable_model
from artkit.environments import Action, Environment, StepResult
from artkit.episodes import FailureKind, FailurePolicy, StopReason
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.rollouts import Limits, Rollout, Sampling
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, DiaryBackend, Reply
from artkit.transport import EmptyReplyError

SCENARIO = Scenario(id="s")
ONCE = FailurePolicy(max_retries=0)
BUSY = Reply(status=429, headers={"Retry-After": "0"})
OVERFLOW = Reply(status=400, error="maximum context length is 8192 tokens, request has 8195")


class Talk(Environment[Scenario]):
    """Ends when the model says bye."""

    max_turns = 5

    async def reset(self, scenario: Scenario) -> Any:
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        return StepResult("go on", done=action.text == "bye", reward=1.0, metrics={"calls": 1})


def failing(at: str, error: BaseException) -> type[Talk]:
    """An environment in which one method raises."""

    class Failing(Talk):
        async def reset(self, scenario: Scenario) -> Any:
            if at == "reset":
                raise error
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            if at == "step":
                raise error
            return await super().step(action)

        async def close(self) -> None:
            if at == "close":
                raise error

    return Failing


async def test_an_episode_remembers_all_that_is_said_of_it() -> None:
    """It is what rewards, statistics and recordings are made from."""
    usage = {"prompt_tokens": 24, "completion_tokens": 4, "total_tokens": 28}
    async with ChatServer([Reply("hi", usage=usage), Reply("bye", usage=usage)]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO, 3)

    duration_s = episode.metrics.pop("duration_s")
    assert duration_s > 0
    assert episode.metrics == {
        "turns": 2, "error": False, "truncated": False, "tool_errors": 0, "retries": 0, "calls": 2,
        "prompt_tokens": 48, "completion_tokens": 8,
    }  # fmt: skip
    assert episode.metadata == {"scenario_id": "s", "stop_reason": "done", "failure_kind": None}
    assert (episode.scenario, episode.member, episode.stop_reason) == (SCENARIO, 3, StopReason.DONE)
    assert (episode.reward, episode.environment_reward, episode.failure) == (2.0, 2.0, None)


async def test_the_first_request_holds_what_reset_said() -> None:
    """A worker that threw the observation away trained a model that never saw the task."""
    async with ChatServer(["bye"]) as server:
        await Rollout(Talk)(server.model(), SCENARIO)

    assert server.requests[0]["messages"] == [{"role": "user", "content": "task s"}]


async def test_the_sampling_is_what_the_server_is_asked_for() -> None:
    """What is trained on must have been sampled as the settings say."""
    sampling = Sampling(
        temperature=0.5, top_p=0.9, max_completion_tokens=7, stop=("x",), seed=1, extra_body={"min_tokens": 2}
    )
    async with ChatServer(["bye"]) as server:
        await Rollout(Talk, sampling=sampling)(server.model(), SCENARIO)

    [request] = server.requests
    assert request == {
        "model": "scripted", "messages": [{"role": "user", "content": "task s"}], "temperature": 0.5, "top_p": 0.9,
        "max_completion_tokens": 7, "stop": ["x"], "seed": sampling.request_seed("s", 0, 0), "min_tokens": 2,
    }  # fmt: skip


async def test_a_trainable_model_is_asked_for_logprobs(tmp_path: Path) -> None:
    """Without them ART has nothing to train on, and says no more than "same reward"."""
    server = ChatServer(["bye"])
    model = make_trainable_model(name="m", project="p", base_model="b", base_path=str(tmp_path), report_metrics=[])
    backend = DiaryBackend(server)
    await model.register(backend)
    episode = await Rollout(Talk)(model, SCENARIO)
    await backend.close()

    reply = episode.messages_and_choices[1]
    assert len(reply.logprobs.content) == len("bye")


@pytest.mark.parametrize("environment", [Talk(), 3])
def test_an_environment_that_rollouts_would_share_is_refused(environment: Any) -> None:
    """One rollout forks the repository, the next finds it already forked."""
    with pytest.raises(ConfigurationError, match="cannot make a fresh environment"):
        Rollout(environment)


async def test_rollouts_side_by_side_have_environments_of_their_own() -> None:
    """What one writes, no other reads."""

    class Own(Talk):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def step(self, action: Action) -> StepResult:
            self.seen.append(action.text)
            await asyncio.sleep(0)
            return StepResult(done=True, outcome=list(self.seen))

    async with ChatServer(lambda body: body["messages"][0]["content"]) as server:
        model = server.model()
        episodes = await asyncio.gather(*(Rollout(Own)(model, Scenario(id=f"{n}")) for n in range(8)))

    assert [episode.outcome for episode in episodes] == [[f"task {n}"] for n in range(8)]


def test_a_rollout_works_in_one_event_loop_after_another() -> None:
    """Notebooks and scripts call `asyncio.run` more than once."""
    rollout = Rollout(Talk)
    with ChatServer(["bye", "bye"]) as server:
        model = server.model()
        episodes = [asyncio.run(rollout(model, SCENARIO)) for _ in range(2)]

    assert [episode.stop_reason for episode in episodes] == ["done", "done"]


async def test_a_context_overflow_ends_the_episode_with_its_turns() -> None:
    """The model talked too long; that is its own doing, scored and never repeated."""
    async with ChatServer(["hi", "ho", OVERFLOW]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    assert len(server.requests) == 3
    assert (episode.stop_reason, episode.failure, episode.reward) == (StopReason.CONTEXT_OVERFLOW, None, 2.0)
    assert (episode.metrics["turns"], episode.metrics["truncated"], episode.metrics["error"]) == (2, True, False)
    assert episode.metadata["failure_kind"] == "limit"


async def test_an_overflow_before_the_first_turn_raises() -> None:
    """There is no episode to return."""
    async with ChatServer([OVERFLOW]) as server:
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            await Rollout(Talk)(server.model(), SCENARIO)


async def test_a_truncated_reply_ends_the_episode() -> None:
    """Near its limit a model goes on with one-word replies for every turn that is left."""
    async with ChatServer(["a", "b", *[Reply("go", finish_reason="length")] * 3]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["turns"], episode.metrics["truncated"]) == ("truncated", 3, True)


async def test_an_error_of_the_environment_after_a_turn_leaves_a_partial_episode() -> None:
    """What the model said was paid for, and shows what went wrong."""
    async with ChatServer(["hi"]) as server:
        episode = await Rollout(failing("step", KeyError("door")))(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.kind, str(episode.failure)) == (FailureKind.ENVIRONMENT, "KeyError: 'door'")
    assert (episode.stop_reason, episode.metrics["error"], episode.metrics["turns"]) == ("error", True, 1)
    assert episode.metadata["failure_kind"] == "environment"
    assert episode.logs == ["environment failure: KeyError: 'door'"]
    assert all(isinstance(value, int | float) for value in episode.metrics.values())


async def test_an_error_before_the_first_turn_raises() -> None:
    """There is nothing to keep."""
    async with ChatServer([]) as server:
        with pytest.raises(KeyError, match="door"):
            await Rollout(failing("reset", KeyError("door")))(server.model(), SCENARIO)


async def test_an_error_of_close_costs_nothing() -> None:
    """The episode was played to its end."""
    async with ChatServer(["bye"]) as server:
        episode = await Rollout(failing("close", OSError("gone")))(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.failure, episode.logs) == ("done", None, ["close() failed: OSError: gone"])


async def test_a_factory_that_fails_is_the_environments_failure() -> None:
    """It is the user's code like the rest of it."""

    def factory() -> Talk:
        raise OSError("no container")

    async with ChatServer([]) as server:
        with pytest.raises(OSError, match="no container"):
            await Rollout(factory)(server.model(), SCENARIO)
        with pytest.raises(EnvironmentContractError, match="returned None"):
            await Rollout(lambda: None)(server.model(), SCENARIO)  # type: ignore[arg-type, return-value]  # the mistake


async def test_an_environment_that_raises_cancelled_error_has_failed() -> None:
    """Nobody cancelled the rollout: passed on, it would look as if the caller had stopped."""
    async with ChatServer(["hi"]) as server:
        episode = await Rollout(failing("step", asyncio.CancelledError()))(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.type) == (FailureKind.ENVIRONMENT, "EnvironmentContractError")


async def test_a_busy_server_is_asked_again_and_the_retries_are_counted() -> None:
    """Rate limits pass."""
    async with ChatServer([BUSY, "bye"]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metrics["retries"]) == ("done", 1)


async def test_a_server_that_stays_busy_leaves_a_partial_episode_with_its_retries() -> None:
    """The budget is per request, and what was spent of it is told."""
    async with ChatServer(["hi", BUSY, BUSY]) as server:
        episode = await Rollout(Talk, failure_policy=FailurePolicy(max_retries=1))(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.type) == (FailureKind.INFRASTRUCTURE, "RateLimitError")
    assert (episode.metrics["retries"], episode.metrics["turns"], len(server.requests)) == (1, 1, 3)


@pytest.mark.parametrize(
    "empty",
    [
        Reply(raw_body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": None}),
        Reply(raw_body={"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}),
        Reply(""),
    ],
    ids=["choices null", "no choices", "nothing said"],
)
async def test_a_reply_without_anything_in_it_is_no_turn(empty: Reply) -> None:
    """Providers send these now and then; taken for a turn, they would be trained on."""
    async with ChatServer(["hi", empty]) as server:
        episode = await Rollout(Talk, failure_policy=ONCE)(server.model(), SCENARIO)

    assert episode.failure is not None
    assert (episode.failure.type, episode.metrics["turns"]) == (EmptyReplyError.__name__, 1)


async def test_the_tokens_of_a_discarded_reply_are_counted() -> None:
    """They were paid for."""
    empty = Reply("", usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110})
    async with ChatServer([empty, "bye"]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    assert (episode.metrics["retries"], episode.metrics["completion_tokens"]) == (1, 10 + len("bye"))


async def test_a_request_that_takes_too_long_is_an_infrastructure_failure() -> None:
    """The server's doing, not the model's: never reward 0."""
    async with ChatServer(["hi", Reply("late", delay_s=30)]) as server:
        rollout = Rollout(Talk, limits=Limits(request_timeout_s=0.2), failure_policy=ONCE)
        episode = await rollout(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metadata["failure_kind"]) == ("timeout", "infrastructure")


async def test_a_deadline_that_passes_while_waiting_for_the_model_keeps_the_turns() -> None:
    """Without it one rollout that hangs holds the whole step for ever."""
    async with ChatServer(["hi", Reply("late", delay_s=30)]) as server:
        episode = await Rollout(Talk, limits=Limits(episode_timeout_s=0.5))(server.model(), SCENARIO)

    assert episode.failure is not None
    assert str(episode.failure) == "TimeoutError: the episode passed its 0.5 s while waiting for the model"
    assert (episode.stop_reason, episode.failure.kind, episode.metrics["turns"]) == ("timeout", "infrastructure", 1)


@pytest.mark.parametrize("limits", [Limits(episode_timeout_s=0.5), Limits(tool_timeout_s=0.1)])
async def test_a_deadline_that_passes_while_waiting_for_the_environment_is_its_failure(limits: Limits) -> None:
    """Whose failure it is decides what follows from it."""

    class Hanging(Talk):
        async def step(self, action: Action) -> StepResult:
            await asyncio.Event().wait()
            return StepResult()

    async with ChatServer(["hi"]) as server:
        episode = await Rollout(Hanging, limits=limits)(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.metadata["failure_kind"]) == ("timeout", "environment")


async def test_a_fatal_refusal_raises_whatever_was_played() -> None:
    """Every further request would be refused too."""
    refused = Reply(status=401, error="no")
    async with ChatServer(["hi", refused]) as server:
        with pytest.raises(openai.AuthenticationError):
            await Rollout(Talk)(server.model(), SCENARIO)


async def test_an_episode_is_played_again_in_a_fresh_environment() -> None:
    """The broken one may hold anything."""
    made: list[Talk] = []

    class Fragile(Talk):
        def __init__(self) -> None:
            made.append(self)

        async def step(self, action: Action) -> StepResult:
            if len(made) == 1:
                raise ConnectionError("the container is gone")
            return await super().step(action)

    async with ChatServer(["hi", "hi", "bye"]) as server:
        rollout = Rollout(Fragile, failure_policy=FailurePolicy(rollout_retries=1))
        episode = await rollout(server.model(), SCENARIO)

    assert (episode.stop_reason, episode.failure, episode.reward) == ("done", None, 2.0)
    assert (episode.metrics["retries"], episode.metrics["turns"], len(made)) == (1, 2, 2)


async def test_an_episode_that_is_played_again_samples_anew() -> None:
    """The same seeds give the same replies, and those may be what broke it."""
    async with ChatServer(["hi"] * 3) as server:
        policy = FailurePolicy(rollout_retries=2)
        await Rollout(failing("step", KeyError("door")), sampling=Sampling(seed=1), failure_policy=policy)(
            server.model(), SCENARIO
        )
    first, *others = [request["seed"] for request in server.requests]

    assert first == Sampling(seed=1).request_seed("s", 0, 0)
    assert len({first, *others}) == 3


async def test_replays_end_with_the_last_failure() -> None:
    """The budget is the caller's."""
    async with ChatServer(["hi"] * 3) as server:
        rollout = Rollout(failing("step", KeyError("door")), failure_policy=FailurePolicy(rollout_retries=2))
        episode = await rollout(server.model(), SCENARIO)

    assert (episode.metadata["failure_kind"], episode.metrics["retries"]) == ("environment", 2)


async def test_half_a_character_does_not_end_the_episode() -> None:
    """A model samples bytes; the request that carries them back must still be sent."""
    async with ChatServer(["half \ud83d", "bye"]) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    assert episode.stop_reason == "done"
    assert server.requests[1]["messages"][1]["content"] == "half \ufffd"
    assert episode.messages_and_choices[1].message.content == "half \ud83d"


async def test_a_server_whose_template_parses_arguments_gets_only_good_ones() -> None:
    """It would refuse every further request of the episode."""
    script = [Reply(tool_calls=[("look", "{a:1}")]), "bye"]
    async with ChatServer(script) as server:
        episode = await Rollout(Talk)(server.model(), SCENARIO)

    [call] = server.requests[1]["messages"][1]["tool_calls"]
    assert call["function"]["arguments"] == '{"invalid_arguments": "{a:1}"}'
    assert episode.messages_and_choices[1].message.tool_calls[0].function.arguments == "{a:1}"


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None, "completion_tokens": None}, {"prompt_tokens": 3}])
async def test_a_server_that_counts_only_some_tokens_costs_no_episode(usage: Any) -> None:
    """Servers send usage with nulls, or with half of it; a count that is missing adds nothing."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "bye"}}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    sampling = Sampling(max_completion_tokens=16)
    async with ChatServer([Reply(raw_body=body)]) as server:
        episode = await Rollout(Talk, sampling=sampling)(server.model(), SCENARIO)

    counted = (episode.metrics["prompt_tokens"], episode.metrics["completion_tokens"])
    assert counted == (usage.get("prompt_tokens") or 0, 0)


async def test_what_a_rollout_raises_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in somebody's log, and a server may say again what it was sent."""
    monkeypatch.setenv("SOME_API_KEY", "the-key-of-this-process")
    refusal = Reply(status=401, error="Incorrect API key provided: the-key-of-this-process")

    async with ChatServer([refusal]) as server:
        with pytest.raises(openai.AuthenticationError, match=r"provided: \[secret\]"):
            await Rollout(Talk)(server.model(), SCENARIO)
