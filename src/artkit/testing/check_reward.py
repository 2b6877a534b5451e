"""Holding a reward adapter against its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import art

from artkit.errors import ArtkitError, ConfigurationError, RewardError
from artkit.rewards import RewardAdapter, check_adapter
from artkit.rewards.reading import Scored, Unscored, problem_of
from artkit.testing.sample_groups import copy_group, group_state, kept_items, made_up_groups

__all__ = ["check_reward"]


async def check_reward(reward: RewardAdapter, groups: Iterable[art.TrajectoryGroup] | None = None) -> None:
    """Run `reward` against the promises of `RewardAdapter`; name the first that it breaks, with the likely cause.

    The promises: `score` is async and returns one answer for each member, in their order, each a finite score, None or
    a `RewardError`; it changes nothing; groups that are scored at the same time don't mix; a score that is not
    `relative` is the same without the siblings; cancelling it cancels it, wherever it is; calling the adapter writes
    what `score` returned, for at least one member, and loses nothing of the group. Those that need the same answer
    twice are held only against an adapter that gives it. Copies are scored, about eight times each, and the first
    group is begun a few times more and cancelled.

    Args:
        reward: The adapter.
        groups: Groups that it can score, unscored yet or not; two or more with two or more members each show the most.
            None takes two made-up ones of `PromptScenario`s with labels, "What is 2 + 3?" and "What is 7 + 8?", among
            whose members are a right reply, a wrong one, an empty one and a plain `art.Trajectory`.

    Raises:
        ConfigurationError: `reward` is no `RewardAdapter`, or there is no group with a member.
        RewardError: A promise is broken.
    """
    check_adapter("reward", reward)
    filled = [group for group in (made_up_groups() if groups is None else groups) if group.trajectories]
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
        for each in results:
            self.none_broken(each)
        alone = [[_value(result) for result in each] for each in results]
        is_steady = alone == [await self.values(group) for group in self.groups]
        if is_steady:
            await self.at_the_same_time(alone)
            if not self.reward.relative:
                await self.in_any_order(alone)
                await self.without_siblings(alone)
        for group in self.groups:
            await self.cancelled(group, after=1)
        for after in (2, 3, 5, 8):
            await self.cancelled(self.groups[0], after=after)
        for group, values in zip(self.groups, alone, strict=True):
            await self.called(group, values if is_steady else None)
        await self.called_with_nobody()

    async def values(self, group: art.TrajectoryGroup) -> list[float | None]:
        """Return what each member is worth; None where it could not be scored."""
        return [_value(result) for result in await self.reward.preview(copy_group(group))]

    async def unchanged(self, group: art.TrajectoryGroup) -> list[Scored | Unscored]:
        """`score` returns one answer per member and changes nothing."""
        scored = copy_group(group)
        members, before = list(scored.trajectories), group_state(scored)
        results = await self.reward.preview(scored)
        same = len(members) == len(scored.trajectories) and all(
            kept is member for kept, member in zip(scored.trajectories, members, strict=True)
        )
        if not same or before != group_state(scored):
            what = next((name for name in before if before[name] != group_state(scored)[name]), "trajectories")
            raise self.broken(
                f"score() changed the group's {what}", "return the answers; calling the adapter writes them"
            )
        return results

    def some_scored(self, results: Sequence[Scored | Unscored]) -> None:
        causes = [result.cause for result in results if isinstance(result, Unscored)]
        if len(causes) == len(results):
            first = causes[0]
            mend = first.hint if isinstance(first, ArtkitError) else "mend what it says"
            problem = f"no member of any group could be scored: {type(first).__name__}: {problem_of(first)}"
            raise self.broken(problem, f"{mend}; or give groups= with episodes that the adapter can score") from first

    def none_broken(self, results: Sequence[Scored | Unscored]) -> None:
        """A member is unscored for a reason that the adapter gives, not because of what it cannot say."""
        for number, result in enumerate(results):
            if not isinstance(result, Unscored) or not result.is_error:
                continue
            if result.who and isinstance(result.cause, RewardError):  # its own, on purpose
                continue
            raise self.broken(
                f"member {number} got no score: {type(result.cause).__name__}: {problem_of(result.cause)}",
                "answer None, or a RewardError that says why, where a member can't be scored; or give groups= with "
                "episodes that the adapter can score",
            ) from result.cause

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
                single = copy_group(group, [number])
                if (got := await self.values(single)) != [value]:
                    raise self.broken(
                        f"member {number} got {value} among its siblings, and {got[0]} without them",
                        "set relative = True on the class: these scores mean something only beside each other",
                    )

    async def in_any_order(self, alone: Sequence[Sequence[float | None]]) -> None:
        for group, values in zip(self.groups, alone, strict=True):
            order = list(range(len(values)))[::-1]
            if (got := await self.values(copy_group(group, order))) != list(values)[::-1]:
                raise self.broken(
                    f"members in reverse order got {got}, and in order {values}",
                    "return the answers in the order of group.trajectories",
                )

    async def cancelled(self, group: art.TrajectoryGroup, *, after: int) -> None:
        """Cancelling reaches `score`, also where it has waited `after` times."""
        scoring = asyncio.create_task(self.reward.preview(copy_group(group)))
        for _ in range(after):
            await asyncio.sleep(0)
        if not scoring.cancel():  # it had nothing more to wait for
            return
        outcome = (await asyncio.gather(scoring, return_exceptions=True))[0]
        if not isinstance(outcome, asyncio.CancelledError):
            raise self.broken(
                f"score() was cancelled and ended in {outcome!r} all the same",
                "never catch asyncio.CancelledError, nor BaseException, without raising it again",
            )

    async def called(self, group: art.TrajectoryGroup, values: Sequence[float | None] | None) -> None:
        """Calling the adapter writes the scores, and loses nothing."""
        hint = "implement score(), and leave __call__ alone"
        scored = copy_group(group)
        members, before = list(scored.trajectories), kept_items(scored)
        if await self.reward(scored) is not scored:
            raise self.broken("calling it returned another group", hint)
        rewards = {id(member): member.reward for member in scored.trajectories}
        got = [rewards.get(id(member)) for member in members]
        if values is not None and got != list(values):
            raise self.broken(f"calling it left the rewards {got}, where score() said {list(values)}", hint)
        if len(scored.exceptions) - len(group.exceptions) != len(members) - len(rewards):
            raise self.broken("calling it left a member unscored without a cause, or scored with one", hint)
        after = kept_items(scored)
        if lost := [name for name, items in before.items() if items - after[name]]:
            raise self.broken(f"calling it lost some of the group's {lost[0]}", hint)

    async def called_with_nobody(self) -> None:
        empty = art.TrajectoryGroup([])
        if await self.reward(empty) is not empty:
            raise self.broken("an empty group did not come back", "implement score(), and leave __call__ alone")

    def broken(self, problem: str, hint: str) -> RewardError:
        return RewardError(f"{type(self.reward).__name__}: {problem}", hint)


def _value(result: Scored | Unscored) -> float | None:
    return result.reward if isinstance(result, Scored) else None
