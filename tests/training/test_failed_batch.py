"""A batch whose gather was stopped leaves a recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import art
import pytest

from artkit.episodes import read_groups
from artkit.errors import OutageError
from artkit.rewards import GroupFilter
from artkit.testing import Reply

if TYPE_CHECKING:
    from artkit.scenarios import Scenario


def recorded(workshop: Any, name: str) -> list[tuple[str, int]]:
    """The scenarios of a recording, and how many members each group has."""
    groups, _ = read_groups(workshop.model_dir / "artkit" / "recordings" / f"{name}-000000.jsonl")
    return [(group.metadata["scenario_id"], len(group.trajectories)) for group in groups]


async def test_what_was_played_before_the_run_was_stopped_is_recorded(workshop: Any) -> None:
    """It was paid for, and it is where to look for the cause."""
    workshop.answers.replies = {"a": "1", "b": Reply(status=401, error="no")}
    data = workshop.scenarios("a", "b")

    with pytest.raises(OutageError):
        await workshop.trainer(train=data, settings={"max_concurrent": 1, "seed": 0}).run()

    groups, _ = read_groups(workshop.model_dir / "artkit" / "recordings" / "failed-000000.jsonl", data)
    assert [group.metadata["scenario_id"] for group in groups] in (["a", "b"], ["b", "a"])
    assert [error.type for group in groups for error in group.exceptions] == ["AuthenticationError"]


async def test_what_was_played_is_recorded_where_a_filter_raises(workshop: Any) -> None:
    """A slip in a user's own filter shows after everything was paid for."""

    class Slips(GroupFilter):
        def reason(self, group: Any) -> str | None:
            raise KeyError("no such metric")

    with pytest.raises(KeyError):
        await workshop.trainer(train=workshop.scenarios("a"), filters=Slips()).run()

    assert recorded(workshop, "failed") == [("a", 2)]


async def test_what_was_played_is_recorded_where_a_run_is_interrupted_while_it_waits_for_more(workshop: Any) -> None:
    """A batch may be filled in several goes, and an open-ended source have no more for a while."""
    workshop.answers.replies = {"a": "1", "b": "1"}  # all alike: both groups are dropped, and more are wanted
    waits = asyncio.Event()

    async def source() -> AsyncIterator[Scenario]:
        for scenario in workshop.scenarios("a", "b"):
            yield scenario
        waits.set()
        await asyncio.Event().wait()

    settings = {"max_extra_groups": 2, "max_steps": 1}
    run = asyncio.create_task(workshop.trainer(train=source(), settings=settings).run())
    await waits.wait()
    run.cancel()
    await asyncio.wait({run})

    assert (run.cancelled(), recorded(workshop, "interrupted")) == (True, [("a", 2), ("b", 2)])


class Own(art.Trajectory):
    """A trajectory class of a user's."""


async def test_trajectories_of_a_users_own_class_are_recorded_where_a_run_is_interrupted(workshop: Any) -> None:
    """They were paid for like any other."""

    async def rollout(model: Any, scenario: Scenario) -> art.Trajectory:
        if scenario.id == "b":
            playing.set()
            await asyncio.Event().wait()
        return Own(messages_and_choices=[{"role": "user", "content": "hi"}], reward=1.0)

    playing = asyncio.Event()
    run = asyncio.create_task(workshop.trainer(train=workshop.scenarios("a", "b"), rollout=rollout).run())
    await playing.wait()
    await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait({run})

    assert sorted(recorded(workshop, "interrupted")) == [("a", 2), ("b", 0)]
