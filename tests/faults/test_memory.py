"""What a run keeps in memory of the episodes that it is done with."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from artkit import (
    Action,
    Environment,
    Limits,
    PromptScenario,
    Rollout,
    StepResult,
    Trainer,
    TrainerSettings,
    gather_groups,
    make_trainable_model,
)
from artkit.testing import ChatServer, DiaryBackend

SCENARIOS = [PromptScenario(id=name, messages=[{"role": "user", "content": name}]) for name in ("one", "two", "three")]
MEMBERS = 64  # of one group: so many the watch over rewards looks at


class Quiet(Environment[PromptScenario]):
    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True)


async def test_a_step_holds_its_own_episodes_and_none_of_the_steps_before(tmp_path: Path) -> None:
    """A step of long episodes may fill half of the memory."""
    graded: list[weakref.ref[Any]] = []
    alive_at: dict[str, int] = {}

    class Counting(Quiet):
        async def reset(self, scenario: PromptScenario) -> Any:
            if scenario.id not in alive_at:
                gc.collect()
                alive_at[scenario.id] = sum(ref() is not None for ref in graded)
            return await super().reset(scenario)

    async def grade(group: Any) -> Any:
        for member, episode in enumerate(group.trajectories):
            episode.reward = float(member)
            graded.append(weakref.ref(episode))
        return group

    trainer = Trainer(
        model=make_trainable_model(
            name="memory", project="faults", base_model="none", base_path=str(tmp_path), report_metrics=[]
        ),
        backend=DiaryBackend(ChatServer(lambda body: "Done.")),
        rollout=Rollout(Counting),
        train=SCENARIOS,
        reward=grade,
        trackers=[],
        settings=TrainerSettings(groups_per_step=1, rollouts_per_group=MEMBERS, check_environment=False),
    )
    await trainer.run()

    assert len(graded) == 3 * MEMBERS
    assert alive_at == {"one": 0, "two": 0, "three": 0}


@pytest.mark.parametrize("where", ["step", "close", "close after a failure"])
async def test_a_rollout_that_was_given_up_holds_no_episode_but_its_own(where: str) -> None:
    """It may run on until the process ends."""
    released, ended = asyncio.Event(), asyncio.Event()

    async def ignore() -> None:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        ended.set()

    class Stubborn(Quiet):
        made = 0

        async def reset(self, scenario: PromptScenario) -> Any:
            Stubborn.made += 1
            self.is_first = Stubborn.made == 1
            return await super().reset(scenario)

        async def step(self, action: Action) -> StepResult:
            if self.is_first and where == "step":
                await ignore()
            if self.is_first and where == "close after a failure":
                raise RuntimeError("it broke")
            return await super().step(action)

        async def close(self) -> None:
            if self.is_first and where != "step":
                await ignore()

    async with ChatServer(lambda body: "Done.") as server:
        rollout = Rollout(Stubborn, limits=Limits(tool_timeout_s=0.05))
        gathered = await gather_groups(rollout, server.model(), SCENARIOS)
        counts, others = gathered.counts, _all_but_the_first(gathered.groups)
        del gathered
        gc.collect()
        alive = [ref for ref in others if ref() is not None]
        released.set()
        await ended.wait()

    assert (counts.abandoned, len(others)) == (1, 11)
    assert alive == []


def _all_but_the_first(groups: list[Any]) -> list[weakref.ref[Any]]:
    members = [one for group in groups for one in group.trajectories]
    return [weakref.ref(one) for one in members if (one.metadata["scenario_id"], one.member) != ("one", 0)]
