"""Many rollouts at once: one limit, the first groups first, nothing kept but episodes, and a loop that is watched."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import time
import weakref
from collections import Counter
from typing import Any

import pytest

from artkit.environments import Action, Environment, StepResult
from artkit.episodes import FailurePolicy
from artkit.errors import AllRolloutsFailedError
from artkit.rollouts import (
    GatherCounts,
    GatherNotice,
    GatherWaits,
    Limits,
    LoopHeldUp,
    Rollout,
    Sampling,
    gather_groups,
    watch,
)
from artkit.rollouts.watch import Watch
from artkit.scenarios import Scenario
from artkit.testing import ChatServer, Reply


def scenarios(count: int) -> list[Scenario]:
    return [Scenario(id=f"s{number}") for number in range(count)]


class OneTurn(Environment[Scenario]):
    """Asks once."""

    async def reset(self, scenario: Scenario) -> str:
        return f"task {scenario.id}"

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=1.0)


class Busy:
    """Counts how many are in at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __aenter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)

    async def __aexit__(self, *error: object) -> None:
        self.now -= 1


async def test_the_first_groups_are_complete_and_judged_first() -> None:
    """Played side by side, all groups end at the end, and the judge has nothing to do until then."""
    order: list[str] = []

    class Noted(OneTurn):
        async def reset(self, scenario: Scenario) -> str:
            order.append(scenario.id)
            return await super().reset(scenario)

    async def judge(group: Any) -> Any:
        order.append(f"{group.metadata['scenario_id']} judged")
        return group

    async with ChatServer(lambda body: Reply("hi", delay_s=0.01)) as server:
        await gather_groups(Rollout(Noted), server.model(), scenarios(8), reward=judge, max_concurrent=4)

    assert order[:4] == ["s0"] * 4
    for number in range(6):
        assert order.index(f"s{number} judged") < order.index(f"s{number + 2}")


async def test_judges_do_not_wait_for_the_places_of_rollouts() -> None:
    """Each has a limit of its own: a slow judge must not keep the model idle."""
    playing, judging = Busy(), Busy()

    class Counted(OneTurn):
        async def step(self, action: Action) -> StepResult:
            async with playing:
                return StepResult(done=True)

    async def judge(group: Any) -> Any:
        async with judging:
            await asyncio.sleep(0.2)
        return group

    async with ChatServer(lambda body: "hi") as server:
        await gather_groups(Rollout(Counted), server.model(), scenarios(10), reward=judge, max_concurrent=5)

    assert playing.most == 5
    assert judging.most > 1


async def test_steps_have_a_limit_of_their_own() -> None:
    """Tools may be served by a few sandboxes, while many rollouts wait for the model."""
    busy = Busy()

    class Counted(OneTurn):
        async def step(self, action: Action) -> StepResult:
            async with busy:
                return StepResult(done=True)

    async with ChatServer(lambda body: "hi") as server:
        rollout = Rollout(Counted, limits=Limits(max_concurrent_steps=3))
        await gather_groups(rollout, server.model(), scenarios(6))

    assert (busy.most, len(server.requests)) == (3, 24)


class Breaking(OneTurn):
    """Of each scenario, the first so many episodes break."""

    breaks = 1
    begun: Counter[str]

    def __init_subclass__(cls) -> None:
        cls.begun = Counter()

    async def reset(self, scenario: Scenario) -> str:
        self.begun[scenario.id] += 1
        if self.begun[scenario.id] <= self.breaks:
            raise OSError("no container")
        return await super().reset(scenario)


async def test_members_that_left_are_replaced_by_further_ones() -> None:
    """A group that is short of members has a worse baseline; the further ones sample by seeds of their own."""

    class Once(Breaking):
        pass

    rollout = Rollout(Once, failure_policy=FailurePolicy(refills=2), sampling=Sampling(seed=0))
    async with ChatServer(lambda body: "hi") as server:
        gathered = await gather_groups(rollout, server.model(), scenarios(2))

    assert [[one.member for one in group.trajectories] for group in gathered.groups] == [[1, 2, 3, 4]] * 2  # type: ignore[attr-defined]
    assert len({request["seed"] for request in server.requests}) == 8
    assert gathered.counts == GatherCounts(started=10, grouped=8, failed={"environment": 2}, refilled=2)
    assert str(gathered.counts) == "8 of 10 rollouts grouped, 2 failed (environment), 2 refilled"


async def test_a_group_is_refilled_before_a_later_one_begins() -> None:
    """It is complete early, and judged early."""
    order: list[str] = []

    class Once(Breaking):
        async def reset(self, scenario: Scenario) -> str:
            order.append(scenario.id)
            return await super().reset(scenario)

    rollout = Rollout(Once, failure_policy=FailurePolicy(refills=1))
    async with ChatServer(lambda body: "hi") as server:
        await gather_groups(rollout, server.model(), scenarios(2), rollouts_per_group=2, max_concurrent=1)

    assert order == ["s0"] * 3 + ["s1"] * 3


async def test_refills_end_where_the_policy_says() -> None:
    """An environment that always breaks would be played for ever."""

    class Always(Breaking):
        breaks = 1000

    rollout = Rollout(Always, failure_policy=FailurePolicy(refills=3))
    async with ChatServer(lambda body: "hi") as server:
        with pytest.raises(AllRolloutsFailedError, match="7/7 rollouts failed"):
            await gather_groups(rollout, server.model(), scenarios(1))

    assert Always.begun == {"s0": 7}


async def test_a_gather_of_one_rollout_is_refilled_too() -> None:
    """That every rollout has failed is known when those in their place have."""

    class Once(Breaking):
        pass

    rollout = Rollout(Once, failure_policy=FailurePolicy(refills=1))
    async with ChatServer(lambda body: "hi") as server:
        gathered = await gather_groups(rollout, server.model(), scenarios(1), rollouts_per_group=1)

    assert gathered.counts == GatherCounts(started=2, grouped=1, failed={"environment": 1}, refilled=1)


async def test_refills_do_not_raise_what_may_fail() -> None:
    """`max_exceptions` is what the caller is ready to lose."""

    class Always(Breaking):
        breaks = 1000

    rollout = Rollout(Always, failure_policy=FailurePolicy(refills=100))
    async with ChatServer(lambda body: "hi") as server:
        with pytest.raises(AllRolloutsFailedError, match="more than max_exceptions=2 allows") as stopped:
            await gather_groups(rollout, server.model(), scenarios(1), max_exceptions=2, max_concurrent=1)

    assert stopped.value.gathered.counts == GatherCounts(started=3, failed={"environment": 3})


async def test_of_a_finished_rollout_only_its_episode_is_kept() -> None:
    """An environment may hold a world, and its failure a traceback with all of it."""
    alive: weakref.WeakSet[Environment[Any]] = weakref.WeakSet()
    left = 0

    class Heavy(OneTurn):
        def __init__(self) -> None:
            alive.add(self)

        async def step(self, action: Action) -> StepResult:
            nonlocal left
            if action.text == "last":
                gc.collect()
                left = len(alive)
            if action.text == "odd":
                raise KeyError("door")
            return StepResult(done=True)

    def script(body: dict[str, Any]) -> str:
        text = body["messages"][0]["content"]
        return "last" if text == "task s39" else "odd" if int(text[6:]) % 2 else "even"

    async with ChatServer(script) as server:
        gathered = await gather_groups(
            Rollout(Heavy), server.model(), scenarios(40), rollouts_per_group=1, max_concurrent=1
        )

    assert gathered.counts == GatherCounts(started=40, grouped=21, lost={"environment": 19})
    # Itself, the one before it, and the first failure: what stops a gather is raised from that.
    assert left <= 3


async def test_what_a_rollout_sets_in_its_context_reaches_no_other() -> None:
    """Whoever takes its place would go on in its trace, or its trajectory."""
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")
    seen = []

    async def rollout(model: Any, scenario: Scenario) -> Any:
        seen.append(mark.get())
        mark.set(scenario.id)
        raise OSError

    with pytest.raises(AllRolloutsFailedError):
        await gather_groups(rollout, None, scenarios(4), max_concurrent=1)  # type: ignore[arg-type]

    assert seen == [""] * 16


async def test_a_loop_that_is_held_up_is_reported_with_the_line_that_did_it() -> None:
    """Every rollout waits for whoever computes, or sleeps, where it should have waited."""

    class Sleepy(OneTurn):
        async def step(self, action: Action) -> StepResult:
            time.sleep(1.5)  # noqa: ASYNC251  # the mistake
            return StepResult(done=True)

    told: list[GatherNotice] = []
    async with ChatServer(lambda body: "hi") as server:
        gathered = await gather_groups(
            Rollout(Sleepy), server.model(), scenarios(1), rollouts_per_group=1, on_notice=told.append
        )

    held_up = gathered.held_up
    assert isinstance(held_up, LoopHeldUp)
    assert told == [held_up]
    assert held_up.seconds > 1
    assert held_up.where.startswith("test_gather_load.py:")
    assert held_up.where.endswith(" in step")


async def test_where_nothing_ends_it_is_told_what_is_played_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gather that stands still must say for which scenarios; not every second, all night long."""
    told: list[GatherNotice] = []
    third = asyncio.Event()

    def tell(notice: GatherNotice) -> None:
        told.append(notice)
        if len(told) == 3:
            third.set()

    monkeypatch.setattr(watch, "_WAITS_S", 0.1)
    with Watch(lambda: ["s1", "s1", "s0"], tell):
        await third.wait()

    assert [(one.scenario_ids, one.running) for one in told if isinstance(one, GatherWaits)] == [(("s1", "s0"), 3)] * 3
    seconds = [one.seconds for one in told if isinstance(one, GatherWaits)]
    assert (seconds[0] >= 0.1, seconds[1] >= 0.2, seconds[2] >= 0.4) == (True, True, True)
    assert str(told[0]) == "no rollout has ended for 0 s; 3 are running, of s1, s0"


async def test_a_reward_that_hangs_is_told_by_its_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rollout runs any more, and the gather stands still all the same: whoever looks must find the judge."""
    monkeypatch.setattr(watch, "_WAITS_S", 0.1)
    told: list[str] = []
    waits = asyncio.Event()

    def tell(notice: GatherNotice) -> None:
        if isinstance(notice, GatherWaits) and len(notice.scoring) == 3:
            told.append(str(notice))
            waits.set()

    async def reward(group: Any) -> Any:
        await waits.wait()
        return group

    async with ChatServer(lambda body: "hi") as server:
        played = [*scenarios(2), Scenario(id="s1")]
        await gather_groups(
            Rollout(OneTurn), server.model(), played, rollouts_per_group=1, reward=reward, on_notice=tell
        )

    assert [text.partition(";")[2] for text in told] == [" 3 groups are being scored, of s0, s1"]


async def test_it_is_waited_since_the_last_group_was_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that takes one group after the other is slow, and works."""
    monkeypatch.setattr(watch, "_WAITS_S", 0.1)
    told: asyncio.Queue[float] = asyncio.Queue()
    now, one_at_a_time = asyncio.get_running_loop().time, asyncio.Lock()
    seen: list[tuple[float, float]] = []

    def tell(notice: GatherNotice) -> None:
        if isinstance(notice, GatherWaits) and not notice.running:
            told.put_nowait(notice.seconds)

    async def reward(group: Any) -> Any:
        async with one_at_a_time:
            waited_s = await told.get()
            seen.append((now(), waited_s))
        return group

    async with ChatServer(lambda body: "hi") as server:
        await gather_groups(
            Rollout(OneTurn), server.model(), scenarios(2), rollouts_per_group=1, reward=reward, on_notice=tell
        )

    (first, _), (second, waited_s) = seen
    assert waited_s <= second - first


@pytest.mark.parametrize(
    ("running", "scoring", "text"),
    [
        (["s1"], [], "no rollout has ended for 60 s; 1 are running, of s1"),
        (
            ["s1", "s1"],
            ["s0"],
            "no rollout has ended for 60 s; 2 are running, of s1; 1 group is being scored, of s0",
        ),
        ([], ["s0", "s2", "s0"], "no group was scored for 60 s; 3 groups are being scored, of s0, s2"),
    ],
)
def test_a_notice_says_what_is_waited_for(running: list[str], scoring: list[str], text: str) -> None:
    """An environment, or a judge."""
    ids = tuple(dict.fromkeys(running))

    assert str(GatherWaits(scenario_ids=ids, running=len(running), seconds=60.0, scoring=tuple(scoring))) == text


async def test_where_rollouts_end_or_none_runs_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to say."""
    told: list[GatherNotice] = []
    monkeypatch.setattr(watch, "_WAITS_S", 0.05)
    with Watch(list, told.append):
        await asyncio.sleep(0.3)

    assert told == []
