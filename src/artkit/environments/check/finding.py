"""What a check of an environment found: a broken promise, and its likely cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["EnvironmentFinding", "LikelyCause", "Promise"]


class Promise(StrEnum):
    """What an environment promises; each is the code of a finding."""

    START = "start"
    REPLAYS = "replays"
    ISOLATED = "isolated"
    FRESH_PROCESS = "fresh-process"
    FRESH_INSTANCE = "fresh-instance"
    PROMPT = "prompt"
    TYPES = "types"
    ANSWERS = "answers"
    IN_TIME = "in-time"
    CLOSES = "closes"
    LEAVES_NOTHING_OPEN = "leaves-nothing-open"
    CANCELS = "cancels"
    PROCESS = "process"
    LEAVES_RETURNED = "leaves-returned"
    LEAVES_SCENARIO = "leaves-scenario"

    @property
    def words(self) -> str:
        """The promise as a sentence."""
        return _WORDS[self]


_WORDS: Mapping[Promise, str] = {
    Promise.START: "Every episode of one scenario has the same start, so the members of a group can be compared.",
    Promise.REPLAYS: "The same scenario and the same replies give the same episode.",
    Promise.ISOLATED: "Episodes that run side by side do not touch each other.",
    Promise.FRESH_PROCESS: "The same scenario and the same replies give the same episode in another process.",
    Promise.FRESH_INSTANCE: "Each episode is played in an instance of its own.",
    Promise.PROMPT: "The first request to the model contains the task: reset() returns it.",
    Promise.TYPES: "reset(), tools(), step() and max_turns are of the types that `Environment` states.",
    Promise.ANSWERS: "reset() and step() answer whatever the model replies; an exception costs the episode.",
    Promise.IN_TIME: "reset(), step() and close() come to an end.",
    Promise.CLOSES: "close() succeeds after the end, in the middle and after an error.",
    Promise.LEAVES_NOTHING_OPEN: "After close() nothing of the episode is left open or running.",
    Promise.CANCELS: "An episode that is cancelled ends.",
    Promise.PROCESS: "An episode changes nothing that belongs to the whole process.",
    Promise.LEAVES_RETURNED: "What was returned does not change afterwards.",
    Promise.LEAVES_SCENARIO: "A scenario is data: an episode does not change it.",
}


class LikelyCause(StrEnum):
    """Why the promise is likely broken."""

    STATE = "state on the class or the module"
    RESET_COUNT = "a count of resets or instances"
    SHARED_OBJECT = "a shared mutable object is returned"
    GLOBAL_RANDOM = "the global generator of `random`"
    NUMPY_RANDOM = "the global generator of `numpy.random`"
    TORCH_RANDOM = "the global generator of `torch`"
    UNSEEDED = "randomness that no scenario seeds"
    CLOCK = "the clock"
    HASH_ORDER = "the order of a set, or hash()"
    OTHER_PROCESS = "something that differs between processes"
    OUTSIDE = "a file or a service that remembers earlier episodes"
    ENVIRON = "os.environ"
    DIRECTORY = "the working directory"
    SCENARIO = "the scenario is changed while it is played"
    SAME_INSTANCE = "one instance is handed out again and again"
    FILES = "files are left open"
    SOCKETS = "sockets are left open"
    PIPES = "pipes are left open"
    TASKS = "tasks are left running"
    THREADS = "threads are left running"
    PROCESSES = "child processes are left running"
    RETURN_VALUE = "what was returned"
    EXCEPTION = "an exception"
    WAITING = "a wait without an end"
    UNKNOWN = "something outlives the episode, or differs each time"

    @property
    def hint(self) -> str:
        """What to do about it."""
        return _HINTS[self]


_HINTS: Mapping[LikelyCause, str] = {
    LikelyCause.STATE: "make it in __init__ or reset() and keep it on self",
    LikelyCause.RESET_COUNT: "take what differs from the scenario, such as a seed in it, and not from a count",
    LikelyCause.SHARED_OBJECT: "return a copy, or build the list or dict anew for each call",
    LikelyCause.GLOBAL_RANDOM: "use self.rng = random.Random(scenario.seed), made in reset()",
    LikelyCause.NUMPY_RANDOM: "use self.rng = numpy.random.default_rng(scenario.seed), made in reset()",
    LikelyCause.TORCH_RANDOM: "use self.rng = torch.Generator().manual_seed(scenario.seed), made in reset()",
    LikelyCause.UNSEEDED: "seed it from the scenario; number ids from 0 instead of drawing them",
    LikelyCause.CLOCK: "put the time that the episode plays at into the scenario",
    LikelyCause.HASH_ORDER: "use sorted(…) over sets, and hashlib instead of hash()",
    LikelyCause.OTHER_PROCESS: "look for process ids, temporary paths, id(), and what an earlier import or call left",
    LikelyCause.OUTSIDE: "give each episode its own file, database or sandbox, made in reset() and removed in close()",
    LikelyCause.ENVIRON: "pass the value as an argument; os.environ is shared by all episodes of the process",
    LikelyCause.DIRECTORY: "use absolute paths; the working directory is shared by all episodes of the process",
    LikelyCause.SCENARIO: "copy what you change, as in messages = copy.deepcopy(scenario.messages)",
    LikelyCause.SAME_INSTANCE: "return a new instance from each call of the factory, or pass the class itself",
    LikelyCause.FILES: "close them in close(), or read and write under `with`",
    LikelyCause.SOCKETS: "close connections and client sessions in close(), and await it",
    LikelyCause.PIPES: "close them in close()",
    LikelyCause.TASKS: "keep the tasks on self, and cancel and await them in close()",
    LikelyCause.THREADS: "stop and join them in close(); shut executors down",
    LikelyCause.PROCESSES: "terminate and await them in close()",
    LikelyCause.RETURN_VALUE: "see the docstring of `Environment`",
    LikelyCause.EXCEPTION: "catch it and answer the model, or mend what it says",
    LikelyCause.WAITING: "give what is awaited a timeout, and never catch asyncio.CancelledError without raising it",
    LikelyCause.UNKNOWN: "look for what is kept between episodes: caches, connections, generators, files",
}


@dataclass(frozen=True, kw_only=True)
class EnvironmentFinding:
    """One broken promise.

    Attributes:
        code: Which promise.
        scenario_id: In which scenario it was seen first.
        turn: After which reply of the model, from 1; 0 is `reset` and what comes before it; None where no turn is
            meant.
        what: What differed or was wrong, in words.
        expected: The value that was expected, shortened; "" where there is none.
        got: The value that came instead, shortened; "" where there is none.
        cause: The likely cause.
        evidence: What speaks for the cause: a name, a line, a value.
    """

    code: Promise
    scenario_id: str
    turn: int | None = None
    what: str
    expected: str = ""
    got: str = ""
    cause: LikelyCause = LikelyCause.UNKNOWN
    evidence: str = ""

    @property
    def promise(self) -> str:
        """The broken promise as a sentence."""
        return self.code.words

    @property
    def hint(self) -> str:
        """What to do about the likely cause."""
        if self.code is Promise.PROMPT and self.cause is LikelyCause.RETURN_VALUE:
            return "return the messages from reset()"
        return self.cause.hint

    @property
    def where(self) -> str:
        """The scenario and the turn."""
        return f"scenario {self.scenario_id!r}" + ("" if self.turn is None else f", turn {self.turn}")

    @property
    def summary(self) -> str:
        """The finding in one line, but for the hint."""
        values = f": expected {self.expected}, got {self.got}" if self.expected or self.got else ""
        evidence = f": {self.evidence}" if self.evidence else ""
        return f"{self.promise} In {self.where}, {self.what}{values}. Likely cause: {self.cause}{evidence}"

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.promise}", f"  {self.where}: {self.what}"]
        if self.expected or self.got:
            lines += [f"    expected {self.expected}", f"    got      {self.got}"]
        evidence = f" ({self.evidence})" if self.evidence else ""
        return "\n".join([*lines, f"  likely cause: {self.cause}{evidence}", f"  hint: {self.hint}"])
