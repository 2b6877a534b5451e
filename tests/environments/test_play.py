"""The turn loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from artkit.environments import Action, Environment, Play, StepResult, play
from artkit.episodes import Episode, StopReason
from artkit.errors import EnvironmentContractError
from artkit.scenarios import Scenario
from artkit.testing import Reply, choice

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Recorded:
    """An actor that replies from a list, and notes what it was asked."""

    def __init__(self, *replies: Reply | str) -> None:
        self.asked: list[tuple[list[dict[str, Any]], Any, int]] = []
        self._replies = replies

    async def act(self, messages: list[dict[str, Any]], tools: Any, turn: int) -> Choice:
        self.asked.append((list(messages), tools, turn))
        return choice(self._replies[turn])


class Steps(Environment[Scenario]):
    """Gives back prepared step results, and counts its calls."""

    def __init__(self, *steps: Any, first: Any = "go", max_turns: int = 10) -> None:
        self.calls: list[str] = []
        self.actions: list[Action] = []
        self.max_turns = max_turns
        self._first = first
        self._steps = list(steps)

    def tools(self) -> Sequence[Any]:
        self.calls.append("tools")
        return [TOOL]

    async def reset(self, scenario: Scenario) -> Any:
        self.calls.append(f"reset {scenario.id}")
        return self._first

    async def step(self, action: Action) -> Any:
        self.calls.append("step")
        self.actions.append(action)
        return self._steps.pop(0)

    async def close(self) -> None:
        self.calls.append("close")


def episode() -> Episode:
    return Episode(scenario=Scenario(id="s"))


async def test_an_environment_is_reset_once_asked_for_tools_once_stepped_and_closed_once() -> None:
    """It is written for one episode; a second reset or close would find it used up."""
    environment = Steps(StepResult("and?"), StepResult(done=True))

    await play(environment, Recorded("a", "b"), episode())

    assert environment.calls == ["reset s", "tools", "step", "step", "close"]


async def test_the_actor_sees_the_conversation_so_far() -> None:
    """The first messages come from reset: a model that never sees the task is rewarded for nothing."""
    actor = Recorded("a", "b")

    await play(Steps(StepResult("and?"), StepResult(done=True)), actor, episode())

    go, said, more = ({"role": r, "content": c} for r, c in (("user", "go"), ("assistant", "a"), ("user", "and?")))
    assert actor.asked == [([go], [TOOL], 0), ([go, said, more], [TOOL], 1)]


async def test_an_episode_holds_the_servers_own_choices_between_the_messages() -> None:
    """Token ids and log probabilities are on them; what is trained is what was sampled."""
    played = await play(Steps(StepResult("and?"), StepResult("bye", done=True)), Recorded("a", "b"), episode())

    assert played.messages_and_choices == [
        {"role": "user", "content": "go"},
        choice("a"),
        {"role": "user", "content": "and?"},
        choice("b"),
        {"role": "user", "content": "bye"},
    ]


async def test_the_messages_read_back_are_those_that_were_sent() -> None:
    """Tool calls of earlier turns included, in order, under their ids."""
    answers = [{"role": "tool", "tool_call_id": f"call_1_{n}", "content": str(n)} for n in range(2)]
    actor = Recorded(Reply(tool_calls=[("look", {"at": "a"}), ("look", {"at": "b"})]), "done")

    played = await play(Steps(StepResult(answers), StepResult(done=True)), actor, episode())

    sent, _, _ = actor.asked[-1]
    assert _said(played.messages()[:-1]) == _said(sent)


async def test_raw_arguments_stay_in_the_record_while_safe_ones_are_sent() -> None:
    """The record is what the model did; the request must pass the server's template."""
    actor = Recorded(Reply(tool_calls=[("look", "{a:1}")]), "done")

    played = await play(Steps(StepResult("what?"), StepResult(done=True)), actor, episode())

    kept = played.messages_and_choices[1].message.tool_calls[0].function.arguments
    sent = actor.asked[1][0][1]["tool_calls"][0]["function"]["arguments"]
    assert (kept, sent) == ("{a:1}", '{"invalid_arguments": "{a:1}"}')


async def test_the_reward_of_an_episode_is_the_sum_of_its_steps() -> None:
    """It is remembered apart from `reward`, which a reward adapter overwrites."""
    steps = [StepResult("x", reward=0.5), StepResult("x", reward=True), StepResult(done=True, reward=np.float32(0.25))]

    played = await play(Steps(*steps), Recorded("a", "b", "c"), episode())

    assert (played.reward, played.environment_reward) == (1.75, 1.75)


async def test_numbers_are_summed_over_turns_and_of_bools_the_last_holds() -> None:
    """Calls add up; whether the door is open is a state."""
    steps = [
        StepResult("x", metrics={"calls": 1, "open": False, "score": 0.5}),
        StepResult("x", metrics={"calls": np.int64(2), "open": np.bool_(True)}),
        StepResult(done=True),
    ]

    played = await play(Steps(*steps), Recorded("a", "b", "c"), episode())

    assert played.metrics == {"turns": 3, "calls": 3, "open": True, "score": 0.5}
    assert type(played.metrics["open"]) is bool


async def test_the_last_outcome_holds() -> None:
    """An environment may report how far it got, turn by turn."""
    steps = [StepResult("x", outcome="half"), StepResult("x"), StepResult(done=True, outcome={"at": "goal"})]

    assert (await play(Steps(*steps[:2], StepResult(done=True)), Recorded("a", "b", "c"), episode())).outcome == "half"
    assert (await play(Steps(*steps), Recorded("a", "b", "c"), episode())).outcome == {"at": "goal"}


@pytest.mark.parametrize(("own", "limit", "turns"), [(2, None, 2), (5, 3, 3), (2, 3, 2)])
async def test_the_smaller_of_the_turns_holds(own: int, limit: int | None, turns: int) -> None:
    """A limit ends the episode with a reason; it never raises."""
    environment = Steps(*[StepResult("on")] * 5, max_turns=own)

    played = await play(environment, Recorded(*"abcde"), episode(), max_turns=limit)

    assert (played.metrics["turns"], played.stop_reason) == (turns, StopReason.MAX_TURNS)


async def test_reset_may_set_the_turns_from_the_scenario() -> None:
    """A hard scenario takes longer."""

    class Timed(Steps):
        async def reset(self, scenario: Scenario) -> Any:
            self.max_turns = 1
            return "go"

    assert (await play(Timed(StepResult("on")), Recorded("a", "b"), episode())).metrics["turns"] == 1


async def test_the_first_reply_that_was_cut_off_ends_the_episode() -> None:
    """Half a command is not what the model meant, and near its limit a model goes on like that for every turn left."""
    environment = Steps(StepResult("x"), StepResult("x"), max_turns=30)
    actor = Recorded("a", "b", *[Reply("go", finish_reason="length")] * 28)

    played = await play(environment, actor, episode())

    assert (played.stop_reason, played.metrics["turns"]) == (StopReason.TRUNCATED, 3)
    assert [action.text for action in environment.actions] == ["a", "b"]


@pytest.mark.parametrize("first", [None, [], "", 3, ["go"]])
async def test_a_reset_without_a_message_is_refused(first: Any) -> None:
    """The model would never see the task, and every reward would be luck."""
    environment = Steps(first=first)

    with pytest.raises(EnvironmentContractError, match=r"reset\(\) gave"):
        await play(environment, Recorded("a"), episode())

    assert environment.calls == ["reset s", "close"]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (None, "step() returned None"),
        (("x", True), "step() returned ('x', True)"),
        (StepResult(reward=math.nan), "step() gave reward=nan"),
        (StepResult(reward=-math.inf), "step() gave reward=-inf"),
        (StepResult(reward=None), "step() gave reward=None"),
        (StepResult(reward="1"), "step() gave reward='1'"),
        (StepResult(metrics={"n": math.nan}), "step() gave metric n=nan"),
        (StepResult(metrics={"n": None}), "step() gave metric n=None"),
        (StepResult(metrics={"reward": 1.0}), "step() gave a metric called 'reward', which artkit or ART logs itself"),
        (StepResult(messages=None), "step() gave None for messages"),
    ],
)
async def test_a_step_that_breaks_its_promise_is_named(step: Any, problem: str) -> None:
    """A missing reward is an error and never 0, and a metric must not shift one that is logged already."""
    with pytest.raises(EnvironmentContractError) as broken:
        await play(Steps(step), Recorded("a"), episode())

    assert broken.value.problem == problem


async def test_a_number_of_any_kind_is_a_reward() -> None:
    """Rewards come out of NumPy, fractions and decimals as often as not."""
    assert (await play(Steps(StepResult(done=True, reward=Decimal("0.5"))), Recorded("a"), episode())).reward == 0.5


@pytest.mark.parametrize("turns", [0, -1, None, 2.5])
async def test_an_environment_without_a_turn_is_refused(turns: Any) -> None:
    """It would look like an episode in which the model said nothing."""
    with pytest.raises(EnvironmentContractError, match="leaves no turn"):
        await play(Steps(max_turns=turns), Recorded("a"), episode())


async def test_what_was_played_before_an_error_stays() -> None:
    """Those turns were paid for, and may be looked at or trained on."""
    kept = episode()

    with pytest.raises(IndexError):
        await play(Steps(StepResult("and?")), Recorded("a", "b"), kept)

    assert (len(kept.messages_and_choices), kept.metrics["turns"]) == (4, 2)


async def test_a_step_that_takes_too_long_is_cut_short_and_named() -> None:
    """One hanging tool must not hold an episode for half an hour."""

    class Hanging(Steps):
        async def step(self, action: Action) -> Any:
            await asyncio.Event().wait()

    environment = Hanging()

    with pytest.raises(TimeoutError, match=r"step\(\) took longer than 0.01 s"):
        await play(environment, Recorded("a"), episode(), step_timeout_s=0.01)

    assert environment.calls[-1] == "close"


async def test_a_play_knows_whom_it_waits_for() -> None:
    """The same exception means another thing when the model's server raised it."""
    seen = []

    class Watching(Recorded):
        async def act(self, messages: Any, tools: Any, turn: int) -> Choice:
            seen.append(game.waiting_for)
            return await super().act(messages, tools, turn)

    class Watched(Steps):
        async def step(self, action: Action) -> Any:
            seen.append(game.waiting_for)
            return StepResult(done=True)

    game = Play(Watched(), Watching("a"), episode())
    await game.run()

    assert seen == ["model", "environment"]


def _said(messages: Any) -> Any:
    """The messages without the fields in which a reply and a message that quotes it differ by type alone."""
    return [
        {
            "role": message["role"],
            "content": message["content"],
            "calls": [
                (call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or ()
            ],
            "answers": message.get("tool_call_id"),
        }
        for message in messages
    ]
