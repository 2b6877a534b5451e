"""Holding a reward adapter against its contract."""

from __future__ import annotations

import asyncio
import copy
import itertools
from typing import Any

import art
import pytest

from artkit.errors import ConfigurationError, JudgeError, RewardError
from artkit.rewards import (
    EnvironmentReward,
    ProgrammaticReward,
    RewardAdapter,
    Score,
    WeightedReward,
    exact_match,
    reply_text,
    token_f1,
)
from artkit.testing import check_reward, choice, episode


def length(trajectory: art.Trajectory) -> float:
    return float(len(reply_text(trajectory) or ""))


class BestOfGroup(RewardAdapter):
    """Good only beside its siblings."""

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        lengths = [length(member) for member in group.trajectories]
        return [each - max(lengths) for each in lengths]


class RelativeBestOfGroup(BestOfGroup):
    relative = True


class Noisy(RewardAdapter):
    """Never says the same twice, as a sampled judge."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        await asyncio.sleep(0)
        return [float(next(self._numbers)) for _ in group.trajectories]


@pytest.mark.parametrize(
    "reward",
    [
        ProgrammaticReward(exact_match()),
        ProgrammaticReward(length),
        EnvironmentReward(),
        WeightedReward({"exact": (ProgrammaticReward(exact_match()), 1), "f1": (ProgrammaticReward(token_f1()), 0.5)}),
        RelativeBestOfGroup(),
        Noisy(),
    ],
    ids=lambda reward: type(reward).__name__,
)
async def test_an_adapter_that_keeps_its_promises_passes(reward) -> None:
    """Ours do, and so does a judge that is not deterministic."""
    await check_reward(reward)


class Miscounting(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        return [1.0]


class Synchronous(RewardAdapter):
    def score(self, group: art.TrajectoryGroup) -> Any:
        return [1.0 for _ in group.trajectories]


class Writing(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        for member in group.trajectories:
            member.metrics["length"] = length(member)
        return [1.0 for _ in group.trajectories]


class Dropping(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        answers = [1.0 for _ in group.trajectories]
        group.trajectories.pop()
        return answers


class Sorting(RewardAdapter):
    """Returns the answers in an order of its own."""

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        return sorted(length(member) for member in group.trajectories)


class Shared(RewardAdapter):
    """Keeps one group's members on itself while it waits."""

    relative = True

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        self.members = group.trajectories
        await asyncio.sleep(0)
        return [length(member) for member in self.members]


class Unstoppable(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        try:
            await asyncio.sleep(0.01)
        except BaseException:  # noqa: BLE001 - the very thing that is tested
            return [0.0 for _ in group.trajectories]
        return [1.0 for _ in group.trajectories]


class Rebuilding(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        return [1.0 for _ in group.trajectories]

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        return copy.copy(await super().__call__(group))


class BadMetric(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[Score]:
        return [Score(1.0, metrics={"why": "good"}) for _ in group.trajectories]  # type: ignore[dict-item]


class NotANumber(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        return [float("nan"), *[1.0 for _ in group.trajectories[1:]]]


class NoMetric(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[Score]:
        return [Score(1.0, metrics={"why": None} if n == 1 else {}) for n in range(len(group.trajectories))]


class Raising(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[Any]:
        return [KeyError("gold") if n == 2 else 1.0 for n in range(len(group.trajectories))]


class Ending(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        for member in group.trajectories:
            if hasattr(member, "outcome"):
                member.outcome = "seen"
        return [1.0 for _ in group.trajectories]


class Stubborn(RewardAdapter):
    """Can be cancelled at first, and no more from its second wait on."""

    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        await asyncio.sleep(0)
        return await Unstoppable().score(group)


class One(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float | None]:
        return [1.0, None, *[1.0 for _ in group.trajectories[2:]]]


class Idle(RewardAdapter):
    async def score(self, group: art.TrajectoryGroup) -> list[float]:
        return [1.0 for _ in group.trajectories]

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        return group


class PuttingBack(One):
    relative = True

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        members = list(group.trajectories)
        await super().__call__(group)
        group.trajectories = members
        return group


class Forgetting(One):
    relative = True

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        await super().__call__(group)
        group.metadata = {}
        return group


@pytest.mark.parametrize(
    ("adapter", "problem"),
    [
        (Miscounting, "returned 1 answers for 4 members"),
        (Synchronous, r"score\(\) returned .*make it `async def score"),
        (NotANumber, "member 0 got no score: RewardError: .*reward nan is not finite"),
        (NoMetric, "member 1 got no score: RewardError: .*metric 'why' None is no number"),
        (Raising, "member 2 got no score: KeyError: 'gold'"),
        (Ending, r"score\(\) changed the group's members' outcome"),
        (Stubborn, r"score\(\) was cancelled and ended in .*never catch asyncio.CancelledError"),
        (Idle, r"calling it left the rewards \[0\.0, 0\.0, 0\.0, 0\.0\], where score\(\) said \[1\.0"),
        (PuttingBack, r"calling it left the rewards .*where score\(\) said .*None"),
        (Forgetting, "calling it lost some of the group's metadata"),
        (BadMetric, "no member of any group could be scored: RewardError: .*metric 'why' 'good' is no number"),
        (Writing, r"score\(\) changed the group's members' metrics .*calling the adapter writes them"),
        (Dropping, r"score\(\) changed the group's "),
        (BestOfGroup, r"got -1\.0 among its siblings, and 0\.0 without them .*set relative = True"),
        (Sorting, "members in reverse order got .*in the order of group.trajectories"),
        (Shared, "groups scored at the same time got .*keep nothing that belongs to one group on self"),
        (Unstoppable, r"score\(\) was cancelled and ended in .*never catch asyncio.CancelledError"),
        (Rebuilding, "calling it returned another group"),
    ],
)
async def test_a_broken_promise_is_named_with_its_likely_cause(adapter, problem: str) -> None:
    """Each of these was somebody's adapter, and was trained on."""
    with pytest.raises(RewardError, match=problem):
        await check_reward(adapter())


async def test_ones_own_groups_stay_as_they_are() -> None:
    """They may be a fixture of many tests."""
    group = art.TrajectoryGroup([episode("?", choice("5"), reward=0.125)], metadata={"scenario_id": "s"})
    before = repr(group)
    await check_reward(ProgrammaticReward(length), [group, art.TrajectoryGroup([])])

    assert repr(group) == before
    assert group.trajectories[0].reward == 0.125


async def test_an_adapter_may_know_ones_own_episodes_only() -> None:
    """The made-up ones cannot please every adapter, and the message says so."""
    reward = ProgrammaticReward(lambda trajectory: trajectory.outcome["won"])
    group = art.TrajectoryGroup([episode("?", choice("5"), outcome={"won": True})])

    with pytest.raises(RewardError, match=r"TypeError: .* give groups= with episodes that the adapter can score"):
        await check_reward(reward)
    await check_reward(reward, [group])


async def test_a_member_that_is_unscored_on_purpose_is_no_broken_promise() -> None:
    """A judge may be at a loss about one member, and says so."""

    class Doubtful(RewardAdapter):
        async def score(self, group: art.TrajectoryGroup) -> list[Any]:
            return [1.0 if reply_text(member) else JudgeError("hm", "ask it") for member in group.trajectories]

    await check_reward(Doubtful())


async def test_one_hint_is_enough() -> None:
    """The cause's own says what to do."""

    class Pathless(RewardAdapter):
        async def score(self, group: art.TrajectoryGroup) -> list[Any]:
            raise RewardError("no answer key", "set it")

    with pytest.raises(RewardError) as caught:
        await check_reward(Pathless())
    assert str(caught.value) == (
        "Pathless: no member of any group could be scored: RewardError: no answer key "
        "(hint: set it; or give groups= with episodes that the adapter can score)"
    )


@pytest.mark.parametrize(
    ("reward", "groups"),
    [(exact_match(), None), (EnvironmentReward, None), (EnvironmentReward(), [art.TrajectoryGroup([])])],
)
async def test_what_cannot_be_checked_is_refused(reward, groups) -> None:
    """A function is no adapter, and an empty group asks nothing."""
    with pytest.raises(ConfigurationError):
        await check_reward(reward, groups)
