"""What is checked of a soak: each rollout by its plan, and the sums against each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from artkit import read_groups
from artkit.testing import read_diary
from artkit.tracking import RolloutFinished, Warned
from soaking.plan import MEMBERS, End, Plan, name

if TYPE_CHECKING:
    from soaking.world import World

__all__ = ["Found", "Told", "by_kind", "check_counts", "check_rollouts", "check_world"]


@dataclass
class Told:
    """A tracker that keeps how each rollout ended, and the warnings."""

    ends: dict[tuple[str, int], list[str | None]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def handle(self, event: Any) -> None:
        """Note what is of interest."""
        if isinstance(event, RolloutFinished):
            self.ends.setdefault((event.scenario_id, event.member), []).append(event.failure)
        elif isinstance(event, Warned):
            self.warnings.append(event.text)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a soak has left: each rollout by its scenario and member.

    Attributes:
        places: The episodes that stayed in their groups, and those that were lost.
        causes: How many exceptions each group holds.
        trained: The rewards that the backend was given for each scenario.
        told: How each rollout ended, as the trackers were told.
        asked: How often the server was asked for each turn of each play.
        rows: The sums of the counts in the history.
    """

    places: dict[str, dict[tuple[str, int], list[Any]]]
    causes: dict[str, int]
    trained: dict[str, list[float]]
    told: dict[tuple[str, int], list[str | None]]
    asked: dict[tuple[int, int, int, int], int]
    rows: Counter[str]

    @classmethod
    def of(cls, directory: Path, told: Told, asked: dict[tuple[int, int, int, int], int]) -> Self:
        """Read what the run in `directory` has left."""
        model = directory / "art" / "faults" / "models" / "soak"
        places: dict[str, dict[tuple[str, int], list[Any]]] = {"grouped": {}, "lost": {}}
        causes: dict[str, int] = {}
        for path in sorted((model / "artkit" / "recordings").glob("batch-*.jsonl")):
            groups, lost = read_groups(path)
            kept: list[Any] = [episode for group in groups for episode in group.trajectories]
            for place, episodes in (("grouped", kept), ("lost", lost)):
                for episode in episodes:
                    key = str(episode.metadata["scenario_id"]), episode.member
                    places[place].setdefault(key, []).append(episode)
            causes |= {str(group.metadata["scenario_id"]): len(group.exceptions) for group in groups}
        trained = {
            group["scenario_id"]: group["rewards"]
            for entry in read_diary(directory / "diary.jsonl")
            if entry.call == "train"
            for group in entry.arguments["groups"]
        }
        rows: Counter[str] = Counter()
        for line in (model / "history.jsonl").read_text(encoding="utf-8").splitlines():
            counts = {key.removeprefix("train/"): value for key, value in json.loads(line).items()}
            rows.update({key: int(n) for key, n in counts.items() if key.startswith(("rollouts_", "groups_")) and n})
        return cls(places=places, causes=causes, trained=trained, told=told.ends, asked=asked, rows=rows)


def check_rollouts(plan: Plan, found: Found) -> Iterator[str]:
    """Yield what is wrong with single rollouts."""
    ends = plan.ends()
    for key in {*found.told, *found.places["grouped"], *found.places["lost"]} - ends.keys():
        yield f"{key} was never planned"
    for (number, member), ((scenario_id, _), end) in zip(plan.rollouts(), ends.items(), strict=True):
        for problem in _check_rollout(found, number, member, end):
            yield f"{scenario_id}, member {member}, {problem}; planned was {end}"


def _check_rollout(found: Found, number: int, member: int, end: End) -> Iterator[str]:
    key = name(number), member
    told = found.told.get(key, [])
    # Whether it can be scored shows only when its group is complete.
    kind = None if end.kind == "reward" else end.kind
    if [failure and failure.partition(":")[0] for failure in told] != [kind]:
        yield f"was told to have ended as {told}"
    episodes = {place: found.places[place].get(key, []) for place in ("grouped", "lost")}
    places = [place for place, there in episodes.items() for _ in there] or ["failed"]
    if places != [end.place]:
        failure = [(one.failure and one.failure.headline) for there in episodes.values() for one in there]
        yield f"is {places} ({failure or told})"
    elif end.place != "failed":
        yield from _check_episode(found, number, end, episodes[end.place][0])


def _check_episode(found: Found, number: int, end: End, episode: Any) -> Iterator[str]:
    kind = episode.failure.kind if episode.failure else None
    actual = (kind, episode.metrics["turns"], episode.stop_reason, episode.environment_reward)
    if actual != (end.kind, end.turns, end.stop, end.reward):
        yield f"ended as {actual}: {episode.failure}, {episode.logs}"
    if end.place == "grouped" and episode.reward != end.reward:
        yield f"was rewarded with {episode.reward}"
    if episode.metrics["tool_errors"] != end.tool_errors:
        yield f"has {episode.metrics['tool_errors']} tool errors"
    asked = {turn: n for turn, n in found.asked.items() if turn[:2] == (number, episode.member)}
    retries = sum(asked.values()) - len(asked) + end.replay
    if episode.metrics["retries"] < retries:  # more: a request may be lost on its way under load
        yield f"counts {episode.metrics['retries']} retries, and the server saw {retries}"
    said = [turn.message.content for turn in episode.messages_and_choices if hasattr(turn, "message")]
    text = f"{name(number)}, member {episode.member}, replay {end.replay}, turn "
    own = [f"{text}{turn}" for turn in range(end.turns)]
    if len(said) != end.turns or not all(map(str.startswith, said, own)):
        yield f"holds the replies {said}"


def check_counts(plan: Plan, found: Found, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with sums: those of the run, and those in its history, beside those of the plan."""
    groups: dict[str, list[End]] = {}
    for (scenario_id, _), end in plan.ends().items():
        groups.setdefault(scenario_id, []).append(end)
    right: Counter[str] = Counter()
    rewards = {}
    for scenario_id, members in groups.items():
        kept = [end.reward for end in members if end.place == "grouped"]
        right["rollouts_started"] += len(members)
        right["rollouts_grouped"] += len(kept)
        right.update(f"rollouts_{end.place}_{end.kind}" for end in members if end.place != "grouped")
        if len(set(kept)) > 1:
            rewards[scenario_id] = kept
        if found.causes.get(scenario_id) != len(members) - len(kept):
            yield f"{scenario_id}: {found.causes.get(scenario_id)} exceptions for {len(members) - len(kept)} members"
    if found.trained != rewards:
        wrong = {key for key in {*found.trained, *rewards} if found.trained.get(key) != rewards.get(key)}
        shown = {key: (found.trained.get(key), rewards.get(key)) for key in sorted(wrong)[:5]}
        yield f"{len(wrong)} groups were not trained on with the rewards of the plan: {shown}"
    right["groups_submitted"], right["groups_trainable"] = len(groups), len(rewards)
    right["groups_dropped"] = len(groups) - len(rewards)
    given_up = plan.given_up()
    right["rollouts_late_results"] = sum(one["play"] for one in given_up)
    right["rollouts_abandoned"] = len(given_up)
    right["rollouts_replayed"] = sum(len(plan.plays(number, member)) - 1 for number, member in plan.rollouts())
    right["rollouts_refilled"] = right["rollouts_started"] - MEMBERS * len(groups)
    for source, sums in (("report", counts), ("history", found.rows)):
        wrong = {key for key in {*sums, *right} if key in right or key.startswith(("rollouts_lost", "rollouts_failed"))}
        if differing := {key: (sums[key], right[key]) for key in sorted(wrong) if sums[key] != right[key]}:
            yield f"counts of the {source}, and of the plan: {differing}"
        parts = sums["rollouts_grouped"] + sum(by_kind(sums, "rollouts_lost_").values())
        parts += sum(by_kind(sums, "rollouts_failed_").values())
        if parts != sums["rollouts_started"]:
            yield f"counts of the {source} do not add up: {dict(sums)}"


def check_world(plan: Plan, world: World, ignoring: int) -> Iterator[str]:
    """Yield what is wrong with the environments."""
    opened = sum(len(plan.plays(number, member)) for number, member in plan.rollouts())
    if len(world.opened) != opened:
        yield f"{len(world.opened)} environments were made, not {opened}"
    closings = Counter(desk.closed for desk in world.opened)
    if set(closings) != {1}:
        yield f"environments by how often they were closed: {dict(closings)}"
    planned = sum((one.total() for one in plan.given_up()), 0)
    if ignoring != planned:
        yield f"{ignoring} environments went on although they were cancelled, and planned were {planned}"
    if world.ignoring:
        yield f"{world.ignoring} environments still go on"
    most = min(plan.settings.in_flight, plan.settings.groups_per_step * MEMBERS)
    if world.most_open > plan.settings.in_flight or world.most_open < most:
        yield f"{world.most_open} environments were open at once, not {most}"


def by_kind(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts whose names begin with `prefix`, by the rest of their names."""
    return {key.removeprefix(prefix): count for key, count in sorted(counts.items()) if key.startswith(prefix)}
