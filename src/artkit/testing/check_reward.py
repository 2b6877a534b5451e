"""Holding a reward adapter against its contract."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import art

from artkit.errors import ConfigurationError, RewardError
from artkit.rewards import RewardAdapter
from artkit.rewards.reading import Scored, Unscored
from artkit.scenarios import PromptScenario
from artkit.testing.episodes import choice, episode

if TYPE_CHECKING:
    from artkit.episodes import Episode

__all__ = ["check_reward"]


async def check_reward(reward: RewardAdapter, groups: Iterable[art.TrajectoryGroup] | None = None) -> None:
    """Run `reward` against the promises of `RewardAdapter`; name the first that it breaks, with the likely cause.

    The promises: `score` is async and returns one answer for each member, in their order; it changes nothing; groups
    that are scored at the same time don't mix; a score that is not `relative` is the same without the siblings;
    cancelling it cancels it; calling the adapter scores at least one member. Those that need the same answer twice are
    held only against an adapter that gives it. Copies are scored, about eight times each.

    Args:
        reward: The adapter.
        groups: Groups that it can score, unscored yet or not; two or more with two or more members each show the most.
            None takes two made-up ones of `PromptScenario`s with labels, "What is 2 + 3?" and "What is 7 + 8?", among
            whose members are a right reply, a wrong one, an empty one and a plain `art.Trajectory`.

    Raises:
        ConfigurationError: `reward` is no `RewardAdapter`, or there is no group with a member.
        RewardError: A promise is broken.
    """
    if not isinstance(reward, RewardAdapter):
        raise ConfigurationError(f"reward={reward!r} is no RewardAdapter", "derive its class from artkit.RewardAdapter")
    filled = [group for group in (_made_up() if groups is None else groups) if group.trajectories]
    if not filled:
        raise ConfigurationError("there is no group with a member", "give at least one")
    await _Check(reward, filled).run()


@dataclass(frozen=True, slots=True)
class _Check:
    reward: RewardAdapter
    groups: Sequence[art.TrajectoryGroup]

    async def run(self) -> None:
        results = [await self.unchanged(group) for group in self.groups]
        self.some_scored([result for each in results for result in each])
        alone = [[_value(result) for result in each] for each in results]
        if alone == [await self.values(group) for group in self.groups]:
            await self.at_the_same_time(alone)
            if not self.reward.relative:
                await self.in_any_order(alone)
                await self.without_siblings(alone)
        for group in self.groups:
            await self.cancelled(group)
        await self.called()

    async def values(self, group: art.TrajectoryGroup) -> list[float | None]:
        """Return what each member is worth; None where it could not be scored."""
        return [_value(result) for result in await self.reward.preview(_copy(group))]

    async def unchanged(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        """`score` returns one answer per member and changes nothing."""
        scored = _copy(group)
        members, before = list(scored.trajectories), _state(scored)
        results = await self.reward.preview(scored)
        same = len(members) == len(scored.trajectories) and all(
            kept is member for kept, member in zip(scored.trajectories, members, strict=True)
        )
        if not same or before != _state(scored):
            what = next((name for name in before if before[name] != _state(scored)[name]), "trajectories")
            raise self.broken(
                f"score() changed the group's {what}", "return the answers; calling the adapter writes them"
            )
        return results

    def some_scored(self, results: Sequence[Scored | Unscored]) -> None:
        causes = [result.cause for result in results if isinstance(result, Unscored)]
        if len(causes) == len(results):
            hint = "mend what it says, or give groups= with episodes that the adapter can score"
            problem = f"no member of any group could be scored: {type(causes[0]).__name__}: {causes[0]}"
            raise self.broken(problem, hint) from causes[0]

    async def at_the_same_time(self, alone: Sequence[Sequence[float | None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self.values(group)) for group in self.groups for _ in range(2)]
        together = [task.result() for task in running[::2]]
        if together != alone:
            raise self.broken(
                f"groups scored at the same time got {together}, and one after the other {alone}",
                "keep nothing that belongs to one group on self between two awaits",
            )

    async def without_siblings(self, alone: Sequence[Sequence[float | None]]) -> None:
        for group, values in zip(self.groups, alone, strict=True):
            for number, value in enumerate(values):
                single = _copy(group, [number])
                if (got := await self.values(single)) != [value]:
                    raise self.broken(
                        f"member {number} got {value} among its siblings, and {got[0]} without them",
                        "set relative = True on the class: these scores mean something only beside each other",
                    )

    async def in_any_order(self, alone: Sequence[Sequence[float | None]]) -> None:
        for group, values in zip(self.groups, alone, strict=True):
            order = list(range(len(values)))[::-1]
            if (got := await self.values(_copy(group, order))) != list(values)[::-1]:
                raise self.broken(
                    f"members in reverse order got {got}, and in order {values}",
                    "return the answers in the order of group.trajectories",
                )

    async def cancelled(self, group: art.TrajectoryGroup) -> None:
        scoring = asyncio.create_task(self.reward.preview(_copy(group)))
        await asyncio.sleep(0)
        if not scoring.cancel():  # it had nothing to wait for
            return
        outcome = (await asyncio.gather(scoring, return_exceptions=True))[0]
        if not isinstance(outcome, asyncio.CancelledError):
            raise self.broken(
                f"score() was cancelled and ended in {outcome!r} all the same",
                "never catch asyncio.CancelledError, nor BaseException, without raising it again",
            )

    async def called(self) -> None:
        for group in self.groups:
            scored = _copy(group)
            if await self.reward(scored) is not scored:
                raise self.broken("calling it returned another group", "implement score(), and leave __call__ alone")
        empty = art.TrajectoryGroup([])
        if await self.reward(empty) is not empty:
            raise self.broken("an empty group did not come back", "implement score(), and leave __call__ alone")

    def broken(self, problem: str, hint: str) -> RewardError:
        return RewardError(f"{type(self.reward).__name__}: {problem}", hint)


def _value(result: Scored | Unscored) -> float | None:
    return result.reward if isinstance(result, Scored) else None


def _copy(group: art.TrajectoryGroup, members: Sequence[int] | None = None) -> art.TrajectoryGroup:
    """Return a copy of `group`, or of some of its members, that can be changed without changing it."""
    own = {"metrics": dict(group.metrics), "metadata": dict(group.metadata), "logs": list(group.logs)}
    numbers = range(len(group.trajectories)) if members is None else members
    trajectories = [copy.deepcopy(group.trajectories[number]) for number in numbers]
    return group.model_copy(update={**own, "trajectories": trajectories, "exceptions": list(group.exceptions)})


def _state(group: art.TrajectoryGroup) -> dict[str, Any]:
    """Return what `score` must leave alone, as text: NaN is not equal to itself."""
    members = group.trajectories
    return {
        "metadata": repr(group.metadata),
        "metrics": repr(group.metrics),
        "logs": repr(group.logs),
        "exceptions": repr(group.exceptions),
        "members' rewards": repr([member.reward for member in members]),
        "members' metrics": repr([member.metrics for member in members]),
        "members' metadata": repr([member.metadata for member in members]),
        "members' logs": repr([member.logs for member in members]),
        "members' messages": repr([member.messages_and_choices for member in members]),
    }


def _made_up() -> list[art.TrajectoryGroup]:
    sums = {"What is 2 + 3?": "5", "What is 7 + 8?": "15"}
    return [_made_up_group(f"sum-{label}", question, label) for question, label in sums.items()]


def _made_up_group(scenario_id: str, question: str, label: str) -> art.TrajectoryGroup:
    scenario = PromptScenario(id=scenario_id, messages=question, label=label)  # type: ignore[arg-type]  # a str is one user message

    def played(reply: str) -> Episode:
        return episode(question, choice(reply), scenario=scenario, metrics={"turns": 1})

    plain = art.Trajectory(
        messages_and_choices=[{"role": "user", "content": question}, choice(label)],
        metadata={"scenario_id": scenario_id, "label": label},
    )
    members = [played(label), played("42"), played(""), plain]
    return art.TrajectoryGroup(members, metadata={"scenario_id": scenario_id})
