"""What is raised that is no `Exception`, by an environment, a tool, a rollout function or a reward."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from artkit import (
    Action,
    Environment,
    FailureKind,
    ProgrammaticReward,
    PromptScenario,
    Rollout,
    StepResult,
    ToolEnvironment,
    capture_partial,
    gather_groups,
    tool,
)
from artkit.testing import ChatServer, Reply

if TYPE_CHECKING:
    import art

SCENARIO = PromptScenario(id="one", messages=[{"role": "user", "content": "Go."}])
CALLS = [("leave", {}), ("leave", {})]


class Abort(BaseException):
    """What some libraries stop their work with."""


EXITS = [SystemExit(3), Abort("enough"), BaseExceptionGroup("both", [Abort("enough"), ValueError("and this")])]
exits = pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)


class Quiet(Environment[PromptScenario]):
    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=1.0)


def raising(where: str, error: BaseException) -> Any:
    """Return what makes environments of which every second one raises `error`, there."""
    made = 0

    def make() -> Environment[Any]:
        nonlocal made
        made += 1
        if made % 2:
            return Quiet()
        if where == "factory":
            raise error
        environment = Quiet()

        async def leave(*_: object) -> Any:
            raise error

        setattr(environment, where, leave)
        return environment

    return make


@exits
@pytest.mark.parametrize("where", ["factory", "reset", "step"])
async def test_an_environment_that_would_end_the_program_costs_its_episode_alone(
    where: str, error: BaseException
) -> None:
    """Code of a model's calls `sys.exit()` now and then."""
    async with ChatServer(lambda body: "Gone.") as server:
        gathered = await gather_groups(Rollout(raising(where, error)), server.model(), [SCENARIO])

    assert len(gathered.groups[0].trajectories) == 2
    assert {record.type for record in gathered.groups[0].exceptions} == {"EnvironmentContractError"}
    assert f"raised {type(error).__name__}" in gathered.groups[0].exceptions[0].message


@exits
async def test_a_close_that_would_end_the_program_costs_nothing(error: BaseException) -> None:
    """The turns were played."""
    async with ChatServer(lambda body: "Gone.") as server:
        gathered = await gather_groups(Rollout(raising("close", error)), server.model(), [SCENARIO])

    logs = [line for episode in gathered.groups[0].trajectories for line in episode.logs]
    assert gathered.counts.grouped == 4
    assert [f"close() raised {type(error).__name__}" in line for line in logs] == [True, True]


@exits
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_tool_that_would_end_the_program_costs_its_episode_alone(
    error: BaseException, parallel: bool, is_async: bool
) -> None:
    """Side by side, each call has a task of its own, and what is raised there reaches the event loop first."""

    def leave(self: Any) -> str:
        """Leave."""
        raise error

    async def leave_later(self: Any) -> str:
        """Leave."""
        await asyncio.sleep(0)
        raise error

    mark = tool(name="leave", parallel=parallel)
    door = type("Door", (ToolEnvironment,), {"reset": Quiet.reset, "leave": mark(leave_later if is_async else leave)})
    async with ChatServer(lambda body: Reply(tool_calls=CALLS)) as server:
        episode = await Rollout(door)(server.model(), SCENARIO)

    assert (episode.failure.kind, episode.metrics["turns"]) == (FailureKind.ENVIRONMENT, 1)


@exits
async def test_a_rollout_function_and_a_reward_cost_what_is_theirs(error: BaseException) -> None:
    """They are a user's code like any other."""

    async def play(model: Any, scenario: Any) -> art.Trajectory:
        raise error

    async def grade(episode: Any) -> float:
        raise error

    async with ChatServer(lambda body: "Gone.") as server:
        with pytest.raises(Exception, match=type(error).__name__):
            await capture_partial(play)(server.model(), SCENARIO)
        gathered = await gather_groups(Rollout(Quiet), server.model(), [SCENARIO], reward=ProgrammaticReward(grade))

    assert gathered.counts.lost == {"reward": 4}
