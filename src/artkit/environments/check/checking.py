"""One check at work: it plays, and keeps what was found."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from artkit.environments.check.causes import Blame, Causes
from artkit.environments.check.finding import EnvironmentFinding, LikelyCause, Promise
from artkit.environments.check.plain import plain, shortened_pair
from artkit.environments.check.playing import Case, Played, play_case
from artkit.environments.check.process import Process
from artkit.environments.check.report import EnvironmentReport
from artkit.environments.check.state import State, own_modules
from artkit.environments.check.surroundings import DIRECTORY, Surroundings
from artkit.environments.check.watched import Fault, Returned

if TYPE_CHECKING:
    from artkit.environments.check.trace import Difference
    from artkit.environments.environment import Environment

__all__ = ["Checking", "Settings"]

_BLOCKS_S = 0.2
_UNLIKE_EACH_OTHER = {Promise.START, Promise.REPLAYS}
_EXPLAINING = {
    *_UNLIKE_EACH_OTHER, Promise.ISOLATED, Promise.LEAVES_SCENARIO, Promise.FRESH_INSTANCE, Promise.PROCESS,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is played; the fields are those of `check_environment`, completed."""

    seed: int
    quick: bool
    max_turns: int
    call_timeout_s: float | None
    time_limit_s: float
    fresh_process: bool


class Checking:
    """Plays cases, holds each play against the promises that one play can show broken, and collects findings.

    Args:
        environment: The class or factory.
        cases: What is played.
        settings: How much of it.

    Attributes:
        base: The first play of each case.
        plays: How many episodes were played.
        moved: Which global generators were used.
        seeded: Which of them were seeded, in which case, and by which call.
        process: What belongs to the whole process.
    """

    def __init__(self, environment: Callable[[], Environment[Any]], cases: Sequence[Case], settings: Settings) -> None:
        self.environment = environment
        self.cases = list(cases)
        self.settings = settings
        self.base: list[tuple[Case, Played]] = []
        self.plays = 0
        self.moved: set[str] = set()
        self.seeded: dict[str, tuple[Case, str]] = {}
        self.process = Process()
        self._left: dict[int, dict[str, dict[int, str]]] = {}
        self._findings: dict[tuple[Promise, LikelyCause], EnvironmentFinding] = {}
        self._notes: dict[str, None] = {}
        self._left_out: dict[str, None] = {}
        self._returned = Returned()
        self._made: deque[Environment[Any]] = deque(maxlen=32)
        self._first_state: State | None = None
        self._scenarios = {id(case.scenario): plain(case.scenario) for case in cases}
        self._slow: Counter[str] = Counter()
        self._longest_s: dict[str, float] = {}

    async def play(
        self,
        case: Case,
        surroundings: Surroundings | None = None,
        *,
        max_turns: int | None = None,
        last_turn: int | None = None,
        is_asked_after_end: bool = False,
    ) -> Played:
        """Play `case` once, and judge nothing."""
        self.plays += 1
        surroundings = surroundings or Surroundings()
        played = await play_case(
            self.make,
            case,
            surroundings,
            max_turns=max_turns or self.settings.max_turns,
            call_timeout_s=self.settings.call_timeout_s,
            returned=self._returned,
            last_turn=last_turn,
            is_asked_after_end=is_asked_after_end,
        )
        self.moved |= surroundings.moved
        for name, seconds in surroundings.longest_s.items():
            self._slow[name] += seconds >= _BLOCKS_S
            self._longest_s[name] = max(seconds, self._longest_s.get(name, 0.0))
        return played

    async def judged(
        self, case: Case, *, ending: str = "", max_turns: int | None = None, last_turn: int | None = None
    ) -> Played:
        """Play `case` alone, and judge what one play can show."""
        surroundings = Surroundings()
        played = await self.play(case, surroundings, max_turns=max_turns, last_turn=last_turn)
        for fault in (played.fault, *played.faults, played.close_fault):
            if fault is not None:
                where = f" {ending}" if ending and fault is played.close_fault else ""
                self.found(
                    fault.code, case, f"{fault.what}{where}", fault.cause, turn=fault.turn, evidence=fault.evidence
                )
        for name, states in surroundings.left.items():
            self._left.setdefault(id(case), {}).setdefault(name, {}).update(states)
        self._judge_scenario(case)
        self._judge_process(case, surroundings.changed)
        return played

    def judge_seeding(self, case: Case, disturbed: Surroundings) -> None:
        """See whether a generator was left as in the play before, which began with another: then it was seeded."""
        before = self._left.get(id(case), {})
        for name, states in disturbed.left.items():
            for state in states.keys() & before.get(name, {}).keys():
                self.seeded.setdefault(name, (case, states[state]))

    async def idle(self, case: Case) -> None:
        """Make, reset and close an environment without a step, as a rollout does whose first request fails."""
        await self.play(case, last_turn=0)

    def make(self) -> Environment[Any]:
        """Make an environment, and see that it is a new one."""
        made = self.environment()
        if any(made is other for other in self._made):
            what = "the factory returned an instance that it had returned before"
            raise Fault(Promise.FRESH_INSTANCE, 0, what, LikelyCause.SAME_INSTANCE)
        self._made.append(made)
        if self._first_state is None:
            self._first_state = State(self.environment, made)
        return made

    @property
    def first_state(self) -> State:
        """The state when the first environment had been made."""
        return self._first_state or self.state()

    def state(self) -> State:
        """Return the state as it is now."""
        return State(self.environment, self._made[-1] if self._made else None)

    @property
    def modules(self) -> list[Any]:
        """The modules that the environment is written in."""
        return list(own_modules(self.environment, self._made[-1] if self._made else None))

    @property
    def causes(self) -> Causes:
        """What finds causes."""
        return Causes(self.play, self.idle, self.state, self.modules, self._returned.shared)

    @property
    def is_explained(self) -> bool:
        """Whether something was found that makes plays differ, so that comparing further ones shows nothing new."""
        codes = {code for code, _ in self._findings}
        return bool(codes & _EXPLAINING)

    def has(self, code: Promise) -> bool:
        """Whether this promise was found broken."""
        return any(found == code for found, _ in self._findings)

    def found(
        self,
        code: Promise,
        case: Case,
        what: str,
        cause: LikelyCause,
        *,
        turn: int | None = None,
        values: tuple[str, str] = ("", ""),
        evidence: str = "",
    ) -> None:
        """Keep a finding, unless it is known from another case."""
        finding = EnvironmentFinding(
            code=code,
            scenario_id=case.scenario_id,
            turn=turn,
            what=what,
            expected=values[0],
            got=values[1],
            cause=cause,
            evidence=evidence,
        )
        self._findings.setdefault((code, cause), finding)

    async def differs(
        self,
        code: Promise,
        case: Case,
        difference: Difference,
        why: Callable[[], Awaitable[Blame | None]],
        how: str,
        *,
        guess: LikelyCause = LikelyCause.UNKNOWN,
    ) -> None:
        """Keep that two plays of `case` differ, and find out why; if time runs out meanwhile, it is kept without.

        Args:
            code: Which promise that breaks; in the first turn it is that of an equal start.
            case: What was played.
            difference: Where the plays part.
            why: Finds the cause; None takes the finding back.
            how: What was different about the second play, in words.
            guess: The cause, until it is found.
        """
        code = Promise.START if difference.turn == 0 and code is not Promise.FRESH_PROCESS else code
        place = "of reset()" if difference.turn == 0 else f"of turn {difference.turn}"
        self.found(
            code,
            case,
            f"{difference.what} {place} differ{'' if difference.what.endswith('s') else 's'} {how}",
            guess,
            turn=difference.turn,
            values=(difference.expected, difference.got),
        )
        blame = await why()
        finding = self._findings.pop((code, guess))
        if blame is None:
            return
        self._findings.setdefault((code, blame[0]), replace(finding, cause=blame[0], evidence=blame[1]))

    def note(self, text: str) -> None:
        """Keep what breaks no promise and is worth knowing."""
        self._notes.setdefault(text)

    def leave_out(self, text: str) -> None:
        """Keep what is not looked at, and why."""
        self._left_out.setdefault(text)

    def report(self) -> EnvironmentReport:
        """Return what was found by now."""
        findings = list(self._findings.values())
        if any(finding.code in _UNLIKE_EACH_OTHER for finding in findings):
            # An episode that finds what an earlier one left often breaks on it; that is the same fault.
            findings = [finding for finding in findings if finding.code is not Promise.ANSWERS]
        for name, count in self._slow.items():
            if count * 2 >= self.plays:
                who = name if " " in name else f"{name}()"
                self.note(
                    f"{who} held the event loop for up to {self._longest_s[name]:.1f} s at a time, and no other "
                    "episode went on meanwhile: run what takes long by await asyncio.to_thread(…)"
                )
        return EnvironmentReport(
            environment=getattr(self.environment, "__qualname__", None) or repr(self.environment),
            findings=tuple(findings),
            notes=tuple(self._notes),
            left_out=tuple(self._left_out),
            scenarios=len({id(case.scenario) for case, _ in self.base}),
            plays=self.plays,
        )

    def _judge_scenario(self, case: Case) -> None:
        before, now = self._scenarios[id(case.scenario)], plain(case.scenario)
        if before != now:
            what = "the scenario is not what it was before the episode"
            values = shortened_pair(before, now)
            self.found(Promise.LEAVES_SCENARIO, case, what, LikelyCause.SCENARIO, values=values)

    def _judge_process(self, case: Case, changed: Mapping[str, str]) -> None:
        for name, call in self.process.changed_again(changed).items():
            cause = LikelyCause.DIRECTORY if name == DIRECTORY else LikelyCause.ENVIRON
            what = f"{call}() changed {name}" if name == DIRECTORY else f"{call}() changed os.environ[{name!r}]"
            self.found(Promise.PROCESS, case, what, cause)
