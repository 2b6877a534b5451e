"""One prompt, one reply."""

from __future__ import annotations

import pytest

from artkit.environments import SingleTurnEnvironment
from artkit.episodes import StopReason
from artkit.rewards import EnvironmentReward, ProgrammaticReward, exact_match
from artkit.rollouts import Rollout, gather_groups
from artkit.scenarios import PromptScenario
from artkit.testing import ChatServer, Reply

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SUM = PromptScenario(
    id="sum",
    messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3?"}],
    label="5",
    tools=[TOOL],
)


async def test_it_shows_the_prompt_and_its_reply_is_the_outcome() -> None:
    """All of the task is in the scenario."""
    async with ChatServer(["5"]) as server:
        episode = await Rollout(SingleTurnEnvironment)(server.model(), SUM)

    assert (server.requests[0]["messages"], server.requests[0]["tools"]) == (SUM.messages, [TOOL])
    assert (episode.outcome, episode.stop_reason, episode.metrics["turns"]) == ("5", StopReason.DONE, 1)


async def test_a_prompt_without_tools_offers_none() -> None:
    """Some servers refuse an empty list."""
    async with ChatServer(["5"]) as server:
        await Rollout(SingleTurnEnvironment)(server.model(), PromptScenario(id="s", messages="2 + 3?"))

    assert "tools" not in server.requests[0]


async def test_tools_are_offered_and_not_run() -> None:
    """What the model would have called is in the reply, for a grader to look at."""
    async with ChatServer([Reply("I look.", tool_calls=[("look", {})])]) as server:
        episode = await Rollout(SingleTurnEnvironment)(server.model(), SUM)

    assert (episode.outcome, episode.metrics["turns"], episode.metrics["tool_errors"]) == ("I look.", 1, 0)


@pytest.mark.parametrize(
    ("reward", "expected"), [(EnvironmentReward(), [0.0, 0.0]), (ProgrammaticReward(exact_match()), [1.0, 0.0])]
)
async def test_the_reply_is_graded_by_a_reward(reward: ProgrammaticReward, expected: list[float]) -> None:
    """The environment itself pays nothing."""
    replies = iter(["5", "6"])
    async with ChatServer(lambda body: next(replies)) as server:
        gathered = await gather_groups(
            Rollout(SingleTurnEnvironment), server.model(), [SUM], rollouts_per_group=2, reward=reward
        )

    [group] = gathered.groups
    assert sorted((member.reward for member in group.trajectories), reverse=True) == expected


async def test_a_reply_that_was_cut_off_is_still_there_to_be_graded() -> None:
    """It is truncated, not lost."""
    async with ChatServer([Reply("The answer is", finish_reason="length")]) as server:
        episode = await Rollout(SingleTurnEnvironment)(server.model(), SUM)

    assert (episode.stop_reason, episode.outcome, episode.metrics["truncated"]) == ("truncated", None, True)
    assert episode.messages_and_choices[-1].message.content == "The answer is"
