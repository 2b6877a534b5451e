"""Episodes that are not played again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import read_groups, record
from artkit.rollouts import RememberingRollout, Rollout, TaskRollout
from artkit.scenarios import Scenario
from artkit.testing import ChatServer

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_episode_is_remembered_though_it_was_cancelled_while_its_environment_was_being_closed(
    tmp_path: Path,
) -> None:
    """It was played to its end; a validation that was cut off does not play it again."""
    closing = asyncio.Event()

    class Closes(Environment[Scenario]):
        async def reset(self, scenario: Scenario) -> str:
            return "go"

        async def step(self, action: Action) -> StepResult:
            return StepResult(done=True, reward=1.0)

        async def close(self) -> None:
            closing.set()
            await asyncio.sleep(0)

    async with ChatServer(lambda body: "hi") as server:
        with record(tmp_path / "episodes.jsonl") as recorder:
            rollout = RememberingRollout(TaskRollout({"t": Rollout(Closes)}, lambda scenario: "t"), recorder, {})
            playing = asyncio.create_task(rollout.attempt(server.model(), Scenario(id="a")))
            await closing.wait()
            playing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await playing

    [group], _ = read_groups(recorder.path)
    assert [(one.reward, one.metadata["task"], str(one.stop_reason)) for one in group.trajectories] == [
        (1.0, "t", "done")
    ]
