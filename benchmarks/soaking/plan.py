"""The plan of a soak: which rollout meets what, and how it must end."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from soaking.fates import ANSWERED, CLOSING, FATES, RESETS, WAITING, WAITING_FATES, WIRE

__all__ = ["MAX_RETRIES", "MEMBERS", "QUICK", "REFILLS", "End", "Plan", "Settings", "Turn", "name", "number_of"]

TURNS = 8
IMPATIENT_TURNS = 3
MEMBERS = 4
REFILLS = 1
MAX_RETRIES = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A soak, and its deadlines.

    Some scenarios wait for their deadlines, and theirs are short. On a busy machine all others may take their time.

    Attributes:
        rollouts: How many are planned; those that take the place of others come on top.
        seed: Of the plan and of the sampling.
        in_flight: How many are played at once.
        steps: How many training steps they make up.
        request_timeout_s: Of the impatient scenarios.
        tool_timeout_s: Of all: a tool either answers at once or never.
        episode_timeout_s: Of the impatient scenarios.
        patient_request_timeout_s: Of all others.
        patient_episode_timeout_s: Of all others.
    """

    rollouts: int = 2_000
    seed: int = 1
    in_flight: int = 512
    steps: int = 2
    request_timeout_s: float = 8.0
    tool_timeout_s: float = 5.0
    episode_timeout_s: float = 60.0
    patient_request_timeout_s: float = 120.0
    patient_episode_timeout_s: float = 600.0

    @property
    def scenarios(self) -> int:
        """How many scenarios there are."""
        return -(-self.rollouts // MEMBERS)

    @property
    def groups_per_step(self) -> int:
        """How many scenarios are one batch."""
        return -(-self.scenarios // self.steps)


QUICK = Settings(rollouts=120, in_flight=32, request_timeout_s=2.0, tool_timeout_s=1.5, episode_timeout_s=15.0)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn of a play brings.

    Attributes:
        wire: The faults that the first requests meet, in order.
        for_ever: The fault that every further request meets, or "overflow" or "bad request".
        points: What the model earns.
        answered: What goes wrong with a tool before that, and is answered.
        raises: What the environment raises after that.
        ending: "length" (cut off), "hang" (until the episode's deadline), "ignore" (any cancellation), or none.
        closing: What the environment will do when it is closed.
        final: What the model says at the end in place of a call; None where it goes on.
    """

    wire: tuple[str, ...] = ()
    for_ever: str | None = None
    points: int = 0
    answered: str | None = None
    raises: str | None = None
    ending: str | None = None
    closing: str | None = None
    final: str | None = None


@dataclass(frozen=True, kw_only=True)
class End:
    """How a rollout must end.

    Attributes:
        place: "grouped", "lost" or "failed".
        kind: Of the failure; None where the episode holds none.
        turns: How many its episode has; 0 where there is no episode.
        stop: The episode's stop reason; "" where there is no episode.
        reward: What it is scored with, or would have been.
        tool_errors: How many calls of tools went wrong and were answered.
        replay: How often it was played before.
    """

    place: str
    kind: str | None
    turns: int
    stop: str
    reward: float
    tool_errors: int
    replay: int = 0


class Plan:
    """What each rollout meets: a function of the settings alone.

    Args:
        settings: The soak's.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        chance = random.Random(settings.seed)
        scenarios = range(len(RESETS), settings.scenarios)
        patient = [number for number in scenarios if not self.is_impatient(number) and self.reset(number) == "well"]
        members = [(number, member) for number in patient for member in range(MEMBERS)]
        chance.shuffle(members)
        unlucky = members[: 4 * len(members) // 10]
        self._fates = {place: FATES[number % len(FATES)] for number, place in enumerate(unlucky)}
        impatient = [(number, member) for number in scenarios if self.is_impatient(number) for member in range(MEMBERS)]
        self._fates |= {place: WAITING_FATES[n % len(WAITING_FATES)] for n, place in enumerate(impatient)}

    def is_impatient(self, number: int) -> bool:
        """Whether the members of a scenario have short deadlines: the first ones, who then do not end last."""
        return number < len(RESETS) + max(2, self.settings.scenarios // 25)

    def turns(self, number: int) -> int:
        """How many turns a play has at most: few where the deadline is short and most of the time is for a fault."""
        return IMPATIENT_TURNS if self.is_impatient(number) else TURNS

    def reset(self, number: int) -> str:
        """How `reset` of a scenario goes."""
        if number < len(RESETS):
            return RESETS[number]
        return "raises" if self._chance(number).random() < 0.01 else "well"

    def is_flat(self, number: int) -> bool:
        """Whether all members of a scenario earn the same, so that there is nothing to learn."""
        return self._chance(number, "flat").random() < 0.1

    @functools.cache  # noqa: B019  # one plan lives as long as its process
    def play(self, number: int, member: int, replay: int) -> tuple[Turn, ...]:
        """Return the turns of one play."""
        chance = self._chance(number, member, replay)
        plan: list[dict[str, Any]] = [
            {"points": 0 if self.is_flat(number) else chance.randrange(1, 10_000)} for _ in range(self.turns(number))
        ]
        plan[-1] = {"final": "done"}
        for turn in plan:
            if chance.random() < 0.06 and "final" not in turn:
                turn["answered"] = chance.choice(ANSWERED)
        self._add_wire_faults(plan, chance)
        if chance.random() < 0.06:
            plan[0]["closing"] = chance.choice(CLOSING)
        fate = self._fate(number, member, chance)
        # A second time it may go well; where it would wait again, it does.
        if fate is not None and not (replay and (fate in WAITING_FATES or chance.random() < 0.5)):
            self._add_fate(plan, chance, fate)
        return tuple(Turn(**turn) for turn in plan)

    def plays(self, number: int, member: int) -> list[End]:
        """Return how each play of a rollout must end: it is played again after an infrastructure failure, once."""
        first = self._end(number, member, 0)
        return [first, self._end(number, member, 1)] if first.kind == "infrastructure" else [first]

    def end(self, number: int, member: int) -> End:
        """Return how a rollout must end."""
        return self.plays(number, member)[-1]

    def members(self, number: int) -> list[int]:
        """Return the members of a group: those planned, and one in the place of those that failed by accident."""
        planned = list(range(MEMBERS))
        accidents = sum(self.end(number, member).kind in {"environment", "infrastructure"} for member in planned)
        return [*planned, *range(MEMBERS, MEMBERS + min(REFILLS, accidents))]

    def rollouts(self) -> Iterator[tuple[int, int]]:
        """Yield the number of the scenario and the member of every rollout."""
        for number in range(self.settings.scenarios):
            yield from ((number, member) for member in self.members(number))

    def given_up(self) -> list[Counter[str]]:
        """Return, for each rollout that must be given up, in what its environments ignore it: a "play", or "close"."""
        found = [self._ignoring(number, member) for number, member in self.rollouts()]
        return [one for one in found if one.total()]

    def _ignoring(self, number: int, member: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for replay, end in enumerate(self.plays(number, member)):
            if not end.turns:
                counts["play"] += self.reset(number) == "ignores" and member < MEMBERS
                continue
            turns = self.play(number, member, replay)
            counts["play"] += turns[end.turns - 1].ending == "ignore"
            # A reply that was cut off is not run.
            counts["close"] += turns[0].closing == "ignores" and turns[0].ending != "length"
        return counts

    def ends(self) -> dict[tuple[str, int], End]:
        """Return how every rollout must end."""
        return {(name(number), member): self.end(number, member) for number, member in self.rollouts()}

    def _end(self, number: int, member: int, replay: int) -> End:
        reset = self.reset(number)
        if reset != "well" and not (reset in {"hangs", "ignores"} and member >= MEMBERS):
            return End(place="failed", kind="environment", turns=0, stop="", reward=0, tool_errors=0)
        points = errors = 0

        def ends(place: str, kind: str | None, turns: int, stop: str) -> End:
            return End(
                place=place if turns else "failed",
                kind=kind,
                turns=turns,
                stop=stop if turns else "",
                reward=points,
                tool_errors=errors,
                replay=replay,
            )

        for index, turn in enumerate(self.play(number, member, replay)):
            if turn.for_ever == "overflow":
                return ends("grouped", None if index else "limit", index, "context_overflow")
            if turn.for_ever is not None:
                return ends("lost", "infrastructure", index, "timeout" if turn.for_ever in WAITING else "error")
            if turn.ending == "length":
                return ends("grouped", None, index + 1, "truncated")
            if turn.raises is not None or turn.ending is not None:
                return ends("lost", "environment", index + 1, "timeout" if turn.ending else "error")
            points += turn.points
            errors += turn.answered is not None
            if turn.final == "done":
                return ends("grouped", None, index + 1, "done")
            if turn.final is not None:
                return ends("lost", "reward", index + 1, "done")
        return ends("grouped", None, self.turns(number), "max_turns")

    def _fate(self, number: int, member: int, chance: random.Random) -> str | None:
        if member >= MEMBERS:
            return chance.choice(FATES) if chance.random() < 0.2 else None
        return self._fates.get((number, member))

    def _add_wire_faults(self, plan: list[dict[str, Any]], chance: random.Random) -> None:
        if chance.random() < 0.5:
            chance.choice(plan)["wire"] = tuple(chance.choices(WIRE, k=chance.choice((1, 2))))

    def _add_fate(self, plan: list[dict[str, Any]], chance: random.Random, fate: str) -> None:
        # Often before the first reply, where there is no episode; never in the last turn, which calls no tool.
        turn = plan[0 if chance.random() < 0.2 else chance.randrange(1, len(plan) - 1)]
        where, _, what = fate.partition(": ")
        match where:
            case "wire":
                turn["for_ever"] = what
                turn.pop("wire", None)
            case "once":
                turn["wire"] = (what,)
            case "raises":
                turn["raises"] = what
            case "unscored":
                plan[-1]["final"] = what
            case "ending":
                turn["ending"] = what
            case _:
                plan[-1].pop("final")
                plan[-1]["points"] = 1

    def _chance(self, *of: object) -> random.Random:
        return random.Random(":".join(map(str, (self.settings.seed, *of))))


def name(number: int) -> str:
    """The id of a scenario."""
    return f"task {number}"


def number_of(scenario_id: str) -> int:
    """The number of the scenario of that id."""
    return int(scenario_id.rpartition(" ")[2])
