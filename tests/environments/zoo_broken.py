"""Environments that each break one promise, in one way."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import itertools
import math
import os
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from artkit.environments import Action, Environment, LikelyCause, Promise, StepResult
from artkit.scenarios import Scenario


class Task(Scenario):
    seed: int = 0
    notes: list[str] = []  # noqa: RUF012  # a field of a model


def tasks() -> list[Task]:
    return [Task(id="a", seed=1), Task(id="b", seed=2)]


class Plain(Environment[Task]):
    """Nothing is wrong with it; each animal of the zoo overrides what it breaks."""

    max_turns = 4

    async def reset(self, scenario: Task) -> Any:
        self.scenario = scenario
        return f"Task {scenario.id}: say something."

    async def step(self, action: Action) -> Any:
        return StepResult(f"You said {action.text[:40]!r}.")


# What outlives an episode.


class ListOnTheClass(Plain):
    orders: list[str] = []  # noqa: RUF012  # that is what is wrong with it

    async def step(self, action: Action) -> Any:
        self.orders.append(action.text[:5])
        return StepResult(f"{len(self.orders)} orders")


SEEN: dict[str, int] = {}


class DictOfTheModule(Plain):
    async def step(self, action: Action) -> Any:
        SEEN[self.scenario.id] = SEEN.get(self.scenario.id, 0) + 1
        return StepResult("again", reward=1.0 / SEEN[self.scenario.id])


class MutableDefault(Plain):
    def __init__(self, log: list[str] = []) -> None:  # noqa: B006  # that is what is wrong with it
        self.log = log

    async def step(self, action: Action) -> Any:
        self.log.append(action.text[:5])
        return StepResult(f"{len(self.log)} lines")


class ForkedOnce(Plain):
    """The backend behind all episodes can be forked once; later episodes find it forked."""

    forked: set[str] = set()  # noqa: RUF012  # that is what is wrong with it

    async def step(self, action: Action) -> Any:
        if self.scenario.id in self.forked:
            raise RuntimeError("the repository is forked already")
        self.forked.add(self.scenario.id)
        return StepResult("forked", done=True, reward=1.0)


class GeneratorOnTheClass(Plain):
    rng = random.Random(0)

    async def step(self, action: Action) -> Any:
        return StepResult(f"rolled {self.rng.randint(1, 1000)}")


class CountsResets(Plain):
    games = 0

    async def reset(self, scenario: Task) -> Any:
        type(self).games += 1
        return f"Game {self.games} begins."


class CountsInstances(Plain):
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.level = self.made

    async def step(self, action: Action) -> Any:
        return StepResult("next", reward=float(self.level))


PROMPT: list[dict[str, Any]] = [{"role": "user", "content": "Tell me a story."}]


class ReturnsTheModulesList(Plain):
    async def reset(self, scenario: Task) -> Any:
        return PROMPT

    async def step(self, action: Action) -> Any:
        PROMPT.append({"role": "user", "content": "go on"})
        return StepResult("go on")


class File(Plain):
    """Keeps a score on the disk that all episodes share."""

    path = Path(tempfile.gettempdir(), f"artkit-zoo-{os.getpid()}")

    async def step(self, action: Action) -> Any:
        with self.path.open("a") as file:
            file.write("x")
        return StepResult(f"{self.path.stat().st_size} visits")


# What no scenario decides.


class GlobalRandom(Plain):
    async def reset(self, scenario: Task) -> Any:
        return f"Guess my number; it is near {random.randint(0, 10**9)}."


class GlobalRandomSeeded(Plain):
    """Seeds the generator that all episodes share."""

    async def reset(self, scenario: Task) -> Any:
        random.seed(scenario.seed)
        return "Roll."

    async def step(self, action: Action) -> Any:
        return StepResult(f"rolled {random.random()}")


class GlobalNumPy(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult("go on", reward=float(np.random.rand()))  # that is what is wrong with it


class GlobalNumPySeeded(Plain):
    async def reset(self, scenario: Task) -> Any:
        np.random.seed(scenario.seed)  # that is what is wrong with it
        return "Roll."

    async def step(self, action: Action) -> Any:
        return StepResult("go on", metrics={"draw": float(np.random.rand())})  # as above


class UnseededGenerator(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.rng = random.Random()
        return "Roll."

    async def step(self, action: Action) -> Any:
        return StepResult(f"rolled {self.rng.random()}")


class Uuid(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"ticket {uuid.uuid4()}")


class ClockToTheSecond(Plain):
    async def reset(self, scenario: Task) -> Any:
        return f"It is {time.strftime('%H:%M')}, {dt.date.today()}."  # noqa: DTZ011  # that is what is wrong


class ClockToTheNanosecond(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult("go on", outcome={"at": time.time_ns()})


# What episodes have in common while they run.


class CurrentOnTheClass(Plain):
    current: Task | None = None

    async def reset(self, scenario: Task) -> Any:
        type(self).current = scenario
        return f"Task {scenario.id}."

    async def step(self, action: Action) -> Any:
        assert self.current is not None
        return StepResult(f"This is task {self.current.id}.")


class Variables(Plain):
    """Each episode writes the same environment variable."""

    async def reset(self, scenario: Task) -> Any:
        os.environ["ARTKIT_ZOO_TASK"] = scenario.id
        return "Go."

    async def step(self, action: Action) -> Any:
        return StepResult(f"task {os.environ['ARTKIT_ZOO_TASK']}")


class Directory(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.before = Path.cwd()
        os.chdir(tempfile.gettempdir())
        return "Go."

    async def close(self) -> None:
        os.chdir(self.before)


ONLY = Plain()


def the_same_each_time() -> Environment[Any]:
    return ONLY


# Other processes.


class SetOrder(Plain):
    async def reset(self, scenario: Task) -> Any:
        return "Choose from " + ", ".join({"door", "lamp", "key", "river", "boat", "stone"}) + "."


class ProcessId(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"worker {os.getpid()}")


# What is returned.


class NoPrompt(Plain):
    async def reset(self, scenario: Task) -> Any:
        return ""


class NonePrompt(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.task = f"Task {scenario.id}."


class EmptyMessages(Plain):
    async def reset(self, scenario: Task) -> Any:
        return [{"role": "system", "content": ""}, {"role": "user", "content": None}]


class NotAsync(Plain):
    def reset(self, scenario: Task) -> Any:
        return "Go."


class ReturnsATuple(Plain):
    async def step(self, action: Action) -> Any:
        return "go on", 1.0, False


class NotANumber(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult("go on", reward=math.nan)


class DoneIsText(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult("go on", done="no")  # type: ignore[arg-type]  # that is what is wrong with it


class NoRole(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult([{"content": "go on"}])


class OneToolOnly(Plain):
    def tools(self) -> Any:
        return {"type": "function", "function": {"name": "look"}}


class ReservedMetric(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult("go on", metrics={"reward": 1.0})


class SameMessageAgain(Plain):
    """One dict, filled anew for each turn."""

    async def reset(self, scenario: Task) -> Any:
        self.message = {"role": "user", "content": "Turn 0."}
        self.turn = 0
        return [self.message]

    async def step(self, action: Action) -> Any:
        self.turn += 1
        self.message["content"] = f"Turn {self.turn}."
        return StepResult([self.message])


class WholeHistoryAgain(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.history = [{"role": "user", "content": "Go."}]
        return self.history

    async def step(self, action: Action) -> Any:
        self.history.append({"role": "user", "content": "Go on."})
        return StepResult(self.history)


class PartsChangeLater(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.parts = [{"type": "text", "text": "Go."}]
        return [{"role": "user", "content": self.parts}]

    async def step(self, action: Action) -> Any:
        self.parts.append({"type": "text", "text": "Go on."})
        return StepResult("Go on.")


class OutcomeClearedByClose(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.state: dict[str, Any] = {}
        return "Go."

    async def step(self, action: Action) -> Any:
        self.state["said"] = action.text[:5]
        return StepResult(done=True, outcome=self.state)

    async def close(self) -> None:
        self.state.clear()


class ChangesTheScenario(Plain):
    async def step(self, action: Action) -> Any:
        self.scenario.notes.append(action.text[:5])
        return StepResult(f"{len(self.scenario.notes)} notes")


# How it ends.


class RaisesOnWords(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"{int(action.text)} it is")


class CloseFailsInTheMiddle(Plain):
    async def step(self, action: Action) -> Any:
        self.result = 1.0
        return StepResult(done=True)

    async def close(self) -> None:
        self.log = f"ended with {self.result}"


class Hangs(Plain):
    async def step(self, action: Action) -> Any:
        await asyncio.Event().wait()


class SwallowsCancellation(Plain):
    async def step(self, action: Action) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        return StepResult("go on")


# What hides its state better.


@functools.lru_cache
def world_of(task: str) -> list[str]:
    return [task]


class RememberedWorld(Plain):
    """A cached function gives all episodes one and the same list."""

    async def step(self, action: Action) -> Any:
        world_of(self.scenario.id).append(action.text[:5])
        return StepResult(f"{len(world_of(self.scenario.id))} things")


class Account:
    __slots__ = ("balance",)

    def __init__(self) -> None:
        self.balance = 100


ACCOUNT = Account()


class SlotsOfTheModule(Plain):
    async def step(self, action: Action) -> Any:
        ACCOUNT.balance -= 1
        return StepResult(f"{ACCOUNT.balance} are left")


class CycleOnTheClass(Plain):
    colours = itertools.cycle(["red", "green", "blue"])

    async def reset(self, scenario: Task) -> Any:
        return f"You are {next(self.colours)}."


class OldNumPyGenerator(Plain):
    rng = np.random.RandomState(3)

    async def step(self, action: Action) -> Any:
        return StepResult(f"{self.rng.rand()}")


class World(Plain):
    def __init__(self, things: list[str]) -> None:
        self.things = things

    async def step(self, action: Action) -> Any:
        self.things.append(action.text[:5])
        return StepResult(f"{len(self.things)} things")


of_one_list = functools.partial(World, [])
of_one_list.__name__ = "of_one_list"  # type: ignore[attr-defined]  # a partial has none


class Worlds:
    def __init__(self) -> None:
        self.things: list[str] = []

    def make(self) -> World:
        return World(self.things)


class SharedConnection(Plain):
    """One database in memory, for all."""

    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE orders (item)")

    async def step(self, action: Action) -> Any:
        self.database.execute("INSERT INTO orders VALUES ('tea')")
        return StepResult(f"{self.database.execute('SELECT count(*) FROM orders').fetchone()} orders")


class Folder(Plain):
    path = Path(tempfile.gettempdir(), f"artkit-zoo-folder-{os.getpid()}")

    async def step(self, action: Action) -> Any:
        self.path.mkdir(exist_ok=True)
        count = len(list(self.path.iterdir()))
        (self.path / str(count)).mkdir()
        return StepResult(f"{count} forks")


class LoopTime(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"at {asyncio.get_running_loop().time()}")


class RandomInAThread(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"{await asyncio.to_thread(random.random)}")


class SeedsTheGlobalGenerator(Plain):
    """Tells the same each time, and makes everybody else's numbers the same too."""

    async def reset(self, scenario: Task) -> Any:
        random.seed(scenario.seed)
        return f"Roll a {random.randint(1, 1000)}."


# What is given in the wrong form, or not at all.


class NotAsyncClose(Plain):
    def close(self) -> None:  # type: ignore[override]  # that is what is wrong with it
        """Nothing to do."""


class AsyncTools(Plain):
    async def tools(self) -> Any:  # type: ignore[override]  # that is what is wrong with it
        return ()


class FlatTool(Plain):
    def tools(self) -> Any:
        return [{"name": "look", "parameters": {}}]


class TwinTools(Plain):
    def tools(self) -> Any:
        return [{"type": "function", "function": {"name": "look"}}] * 2


class ParametersWithoutAnObject(Plain):
    def tools(self) -> Any:
        return [{"type": "function", "function": {"name": "look", "parameters": {"at": {"type": "string"}}}}]


class EmptyBlocks(Plain):
    async def reset(self, scenario: Task) -> Any:
        return [{"role": "user", "content": [{"type": "text", "text": ""}]}]


class NeedsAWord(Plain):
    async def step(self, action: Action) -> Any:
        return StepResult(f"You said {action.text.split()[0]!r}.")


class CloseHangs(Plain):
    async def close(self) -> None:
        await asyncio.Event().wait()


class HangsForGood(Plain):
    """Goes on whatever happens to it."""

    async def step(self, action: Action) -> Any:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()


KEPT: list[Any] = []  # what the animals below leave, for the test to tidy up


class LeavesFile(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.log = tempfile.TemporaryFile("w")  # noqa: SIM115  # that is what is wrong with it
        KEPT.append(self.log.close)
        return "Go."


class LeavesSocket(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.sockets = socket.socketpair()
        KEPT.extend(each.close for each in self.sockets)
        return "Go."


class LeavesPipe(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.pipe = os.pipe()
        KEPT.extend((lambda end=end: os.close(end)) for end in self.pipe)
        return "Go."


class LeavesTask(Plain):
    async def reset(self, scenario: Task) -> Any:
        self.task = asyncio.create_task(asyncio.sleep(60))
        return "Go."


class LeavesThread(Plain):
    async def reset(self, scenario: Task) -> Any:
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        KEPT.extend([stop.set, thread.join])
        return "Go."


class LeavesProcess(Plain):
    async def reset(self, scenario: Task) -> Any:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])  # noqa: ASYNC220  # it is not waited for
        KEPT.extend([child.terminate, child.wait])
        return "Go."


class LeavesFileWhenCutShort(Plain):
    """Closes its file when the game is over, and only then."""

    async def reset(self, scenario: Task) -> Any:
        self.log = tempfile.TemporaryFile("w")  # noqa: SIM115  # that is what is wrong with it
        KEPT.append(self.log.close)
        return "Go."

    async def step(self, action: Action) -> Any:
        self.log.close()
        return StepResult(done=True)


@dataclass(frozen=True, kw_only=True)
class Broken:
    """An animal, what it breaks, and why."""

    environment: Callable[[], Environment[Any]]
    code: Promise
    cause: LikelyCause
    evidence: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(getattr(self.environment, "__name__", ""))


def animals(
    code: Promise, cause: LikelyCause, *made: Callable[[], Environment[Any]], evidence: str = "", **options: Any
) -> Sequence[Broken]:
    return [
        Broken(environment=environment, code=code, cause=cause, evidence=evidence, options=options)
        for environment in made
    ]


LEFT = Promise.LEAVES_NOTHING_OPEN
BROKEN: list[Broken] = [
    *animals(Promise.REPLAYS, LikelyCause.STATE, ListOnTheClass, evidence="ListOnTheClass.orders went from"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, DictOfTheModule, evidence="SEEN went from"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, MutableDefault, evidence="a default argument of MutableDefault"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, ForkedOnce, evidence="ForkedOnce.forked went from"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, GeneratorOnTheClass, evidence="GeneratorOnTheClass.rng"),
    *animals(Promise.START, LikelyCause.RESET_COUNT, CountsResets, evidence="CountsResets.games went from"),
    *animals(Promise.REPLAYS, LikelyCause.RESET_COUNT, CountsInstances, evidence="CountsInstances.made"),
    *animals(Promise.START, LikelyCause.SHARED_OBJECT, ReturnsTheModulesList, evidence="the list that reset()"),
    *animals(Promise.REPLAYS, LikelyCause.OUTSIDE, File, evidence="open() at zoo_broken.py"),
    *animals(Promise.START, LikelyCause.GLOBAL_RANDOM, GlobalRandom, evidence="random.randint() at zoo_broken.py"),
    *animals(Promise.REPLAYS, LikelyCause.GLOBAL_RANDOM, GlobalRandomSeeded),
    *animals(Promise.REPLAYS, LikelyCause.NUMPY_RANDOM, GlobalNumPy, GlobalNumPySeeded),
    *animals(Promise.REPLAYS, LikelyCause.UNSEEDED, UnseededGenerator, evidence="random.Random() at zoo_broken.py"),
    *animals(Promise.REPLAYS, LikelyCause.UNSEEDED, Uuid, evidence="uuid.uuid4() at zoo_broken.py"),
    *animals(Promise.START, LikelyCause.CLOCK, ClockToTheSecond, evidence="at zoo_broken.py"),
    *animals(Promise.REPLAYS, LikelyCause.CLOCK, ClockToTheNanosecond, evidence="time.time_ns() at zoo_broken.py"),
    *animals(Promise.ISOLATED, LikelyCause.STATE, CurrentOnTheClass, evidence="CurrentOnTheClass.current"),
    *animals(Promise.PROCESS, LikelyCause.ENVIRON, Variables),
    *animals(Promise.PROCESS, LikelyCause.DIRECTORY, Directory),
    *animals(Promise.FRESH_INSTANCE, LikelyCause.SAME_INSTANCE, the_same_each_time),
    *animals(Promise.FRESH_PROCESS, LikelyCause.HASH_ORDER, SetOrder, fresh_process=True),
    *animals(Promise.FRESH_PROCESS, LikelyCause.OTHER_PROCESS, ProcessId, fresh_process=True),
    *animals(Promise.PROMPT, LikelyCause.RETURN_VALUE, NoPrompt, NonePrompt, EmptyMessages),
    *animals(Promise.TYPES, LikelyCause.RETURN_VALUE, NotAsync, ReturnsATuple, NotANumber, DoneIsText, NoRole),
    *animals(Promise.TYPES, LikelyCause.RETURN_VALUE, OneToolOnly, ReservedMetric),
    *animals(Promise.LEAVES_RETURNED, LikelyCause.SHARED_OBJECT, SameMessageAgain, WholeHistoryAgain),
    *animals(Promise.LEAVES_RETURNED, LikelyCause.SHARED_OBJECT, PartsChangeLater, OutcomeClearedByClose),
    *animals(Promise.LEAVES_SCENARIO, LikelyCause.SCENARIO, ChangesTheScenario),
    *animals(Promise.ANSWERS, LikelyCause.EXCEPTION, RaisesOnWords, evidence="zoo_broken.py"),
    *animals(Promise.CLOSES, LikelyCause.EXCEPTION, CloseFailsInTheMiddle),
    *animals(Promise.IN_TIME, LikelyCause.WAITING, Hangs, call_timeout_s=0.05),
    *animals(Promise.REPLAYS, LikelyCause.STATE, RememberedWorld, evidence="what zoo_broken.world_of remembers"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, SlotsOfTheModule, evidence="ACCOUNT went from {'balance': 100}"),
    *animals(Promise.START, LikelyCause.STATE, CycleOnTheClass, evidence="CycleOnTheClass.colours"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, OldNumPyGenerator, evidence="OldNumPyGenerator.rng"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, of_one_list, evidence="an argument of the partial World"),
    *animals(Promise.REPLAYS, LikelyCause.STATE, Worlds().make, evidence="what Worlds.make is bound to"),
    *animals(Promise.REPLAYS, LikelyCause.OUTSIDE, SharedConnection, evidence="sqlite3.Connection.execute() at zoo"),
    *animals(Promise.REPLAYS, LikelyCause.OUTSIDE, Folder, evidence="() at zoo_broken.py"),
    *animals(Promise.REPLAYS, LikelyCause.CLOCK, LoopTime, evidence="loop.time() at zoo_broken.py"),
    *animals(Promise.REPLAYS, LikelyCause.GLOBAL_RANDOM, RandomInAThread, evidence="its threads"),
    *animals(Promise.PROCESS, LikelyCause.GLOBAL_RANDOM, SeedsTheGlobalGenerator),
    *animals(Promise.TYPES, LikelyCause.RETURN_VALUE, NotAsyncClose, AsyncTools, FlatTool, TwinTools),
    *animals(Promise.TYPES, LikelyCause.RETURN_VALUE, ParametersWithoutAnObject),
    *animals(Promise.PROMPT, LikelyCause.RETURN_VALUE, EmptyBlocks),
    *animals(Promise.ANSWERS, LikelyCause.EXCEPTION, NeedsAWord, evidence="zoo_broken.py"),
    *animals(Promise.IN_TIME, LikelyCause.WAITING, CloseHangs, HangsForGood, call_timeout_s=0.05),
    *animals(Promise.CANCELS, LikelyCause.WAITING, SwallowsCancellation),
    *animals(LEFT, LikelyCause.FILES, LeavesFile, LeavesFileWhenCutShort),
    *animals(LEFT, LikelyCause.SOCKETS, LeavesSocket),
    *animals(LEFT, LikelyCause.PIPES, LeavesPipe),
    *animals(LEFT, LikelyCause.TASKS, LeavesTask),
    *animals(LEFT, LikelyCause.THREADS, LeavesThread),
    *animals(LEFT, LikelyCause.PROCESSES, LeavesProcess),
]
