"""Environments that keep their promises, each in another way."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from artkit.environments import Action, Environment, StepResult
from artkit.scenarios import PromptScenario, Scenario

PICTURE = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
SYSTEM = {"role": "system", "content": "You play a game."}


class Task(Scenario):
    seed: int = 0
    words: tuple[str, ...] = ("door", "lamp", "key")


TASKS = [Task(id="a", seed=1), Task(id="b", seed=2, words=("river", "boat"))]


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    parameters = parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def answers(action: Action, text: str = "done") -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call.id, "content": f"{call.name}: {text}"} for call in action.tool_calls]


class Echo(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        return f"Say {scenario.words[0]}."

    async def step(self, action: Action) -> StepResult:
        return StepResult(f"You said {action.text!r}.", reward=0.1, done="e" in action.text)


class OneTurn(Environment[PromptScenario]):
    """Gives out the scenario's own messages."""

    async def reset(self, scenario: PromptScenario) -> Any:
        self.label = scenario.label
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=float(action.text == self.label), outcome=action.text)


class SeededByScenario(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        self.rng = random.Random(scenario.seed)
        return f"Guess a number; a hint: {self.rng.randint(0, 9)}"

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(0)
        return StepResult(str(self.rng.random()), reward=self.rng.random())


class NumPySeededByScenario(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        self.rng = np.random.default_rng(scenario.seed)
        return f"A board: {self.rng.integers(0, 3, size=(2, 2)).tolist()}"

    async def step(self, action: Action) -> StepResult:
        return StepResult("go on", reward=self.rng.normal(), metrics={"draw": self.rng.random()})


class Slow(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        await asyncio.sleep(0.02)
        return "Take your time."

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(0.02)
        return StepResult("more", done=len(action.text) > 3)


class Tools(Environment[Task]):
    """Tools with all that a schema can ask for."""

    max_turns = 5

    def tools(self) -> Sequence[Any]:
        place = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "number"}}, "required": ["x"]}
        return [
            tool("look"),
            tool(
                "go",
                {
                    "type": "object",
                    "properties": {
                        "way": {"enum": ["north", "south"]},
                        "steps": {"type": "integer", "minimum": 1, "maximum": 3},
                        "to": {"$ref": "#/$defs/place"},
                        "names": {"type": "array", "items": {"type": "string", "minLength": 2}, "minItems": 1},
                        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                    },
                    "required": ["way", "steps", "to"],
                    "additionalProperties": False,
                    "$defs": {"place": place},
                },
            ),
        ]

    async def reset(self, scenario: Task) -> Any:
        self.x = 0
        return [SYSTEM, {"role": "user", "content": "Find the key."}]

    async def step(self, action: Action) -> StepResult:
        for call in action.tool_calls:
            if call.name == "go":
                assert call.arguments["way"] in {"north", "south"}
                assert 1 <= call.arguments["steps"] <= 3
                assert all(len(name) >= 2 for name in call.arguments.get("names", ()))
                self.x += call.arguments["steps"] * call.arguments["to"]["x"]
        if not action.tool_calls:
            return StepResult(done=True, outcome={"x": self.x, "said": action.text})
        return StepResult(answers(action, str(self.x)), metrics={"moves": len(action.tool_calls), "far": self.x > 5})


class OwnHistory(Environment[Task]):
    """Keeps the list that it returned, and adds to it for its own use."""

    async def reset(self, scenario: Task) -> Any:
        self.history = [{"role": "user", "content": "Tell a story."}]
        return self.history

    async def step(self, action: Action) -> StepResult:
        self.history.append({"role": "assistant", "content": action.text})
        self.history.append({"role": "user", "content": f"That is {len(self.history)} lines."})
        return StepResult(self.history[-1:])


class SharedConstant(Environment[Task]):
    """Returns the same objects each time, and never changes them."""

    PROMPT: Sequence[Any] = [SYSTEM, {"role": "user", "content": PICTURE}]
    AGAIN: Sequence[Any] = [{"role": "user", "content": "again"}]

    async def reset(self, scenario: Task) -> Any:
        return self.PROMPT

    async def step(self, action: Action) -> StepResult:
        return StepResult(self.AGAIN)


class Cached(Environment[Task]):
    """A cache on the class that changes nothing but how long it takes."""

    cache: dict[str, int] = {}  # noqa: RUF012  # on purpose
    hits = 0

    async def reset(self, scenario: Task) -> Any:
        return "Give me a word to count."

    async def step(self, action: Action) -> StepResult:
        if action.text in self.cache:
            type(self).hits += 1
        return StepResult(str(self.cache.setdefault(action.text, len(action.text))))


@functools.lru_cache
def letters(text: str) -> int:
    return len(text)


class Memoised(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        return "Give me a word."

    async def step(self, action: Action) -> StepResult:
        return StepResult(str(letters(action.text)))


class CountsOnTheSide(Environment[Task]):
    """Statistics that no episode sees."""

    episodes = 0

    async def reset(self, scenario: Task) -> Any:
        type(self).episodes += 1
        return "Hello."

    async def step(self, action: Action) -> StepResult:
        return StepResult(f"{action.text}!")


class Database(Environment[Task]):
    """A database in memory, closed at the end."""

    async def reset(self, scenario: Task) -> Any:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table said (text)")
        return "Say things."

    async def step(self, action: Action) -> StepResult:
        self.db.execute("insert into said values (?)", (action.text,))
        (count,) = self.db.execute("select count(*) from said").fetchone()
        return StepResult(f"{count} things said", done=count >= 3, reward=float(count))

    async def close(self) -> None:
        self.db.close()


class DatabaseFile(Environment[Task]):
    """A database of its own on the disk, removed at the end."""

    async def reset(self, scenario: Task) -> Any:
        self.stack = contextlib.ExitStack()
        directory = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.db = self.stack.enter_context(contextlib.closing(sqlite3.connect(Path(directory, "a.db"))))
        self.db.execute("create table said (text)")
        return "Say things."

    async def step(self, action: Action) -> StepResult:
        self.db.execute("insert into said values (?)", (action.text,))
        return StepResult(str(self.db.execute("select * from said").fetchall()))

    async def close(self) -> None:
        self.stack.close()


class SharedDatabase(Environment[Task]):
    """One connection for all episodes, opened when it is first needed, only read."""

    db: sqlite3.Connection | None = None
    path = ""

    async def reset(self, scenario: Task) -> Any:
        cls = type(self)
        if cls.db is None:
            descriptor, cls.path = tempfile.mkstemp()
            os.close(descriptor)
            cls.db = sqlite3.connect(cls.path)
        return "Ask."

    async def step(self, action: Action) -> StepResult:
        assert self.db is not None
        return StepResult(str(self.db.execute("select upper(?)", (action.text,)).fetchone()))

    @classmethod
    def end(cls) -> None:
        if cls.db is not None:
            cls.db.close()
            Path(cls.path).unlink()
            cls.db = None


class Server(Environment[Task]):
    """A server and a client, both closed."""

    async def reset(self, scenario: Task) -> Any:
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.reader, self.writer = await asyncio.open_connection(host, port)
        return "Say something to the server."

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()
        await writer.wait_closed()

    async def step(self, action: Action) -> StepResult:
        self.writer.write((action.text[:50].replace("\n", " ") + "\n").encode())
        return StepResult((await self.reader.readline()).decode())

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()
        self.server.close()
        await self.server.wait_closed()


class Subprocess(Environment[Task]):
    """A child process, ended and awaited."""

    max_turns = 2

    async def reset(self, scenario: Task) -> Any:
        self.cat = await asyncio.create_subprocess_exec(
            "/bin/cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        return "Say something to the cat."

    async def step(self, action: Action) -> StepResult:
        assert self.cat.stdin is not None
        assert self.cat.stdout is not None
        self.cat.stdin.write((action.text[:50].replace("\n", " ") + "\n").encode())
        return StepResult((await self.cat.stdout.readline()).decode())

    async def close(self) -> None:
        assert self.cat.stdin is not None
        self.cat.stdin.close()
        await self.cat.wait()


class Background(Environment[Task]):
    """A task that runs beside the episode and is stopped with it."""

    async def reset(self, scenario: Task) -> Any:
        self.beats: asyncio.Queue[int] = asyncio.Queue(1)
        self.task = asyncio.create_task(self.beat())
        return "Listen."

    async def beat(self) -> None:
        for number in range(1000):
            await self.beats.put(number)

    async def step(self, action: Action) -> StepResult:
        return StepResult(f"beat {await self.beats.get()}")

    async def close(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class TaskGroup(Environment[Task]):
    """Opened by `reset` and closed by `close`, in the same task."""

    async def reset(self, scenario: Task) -> Any:
        self.stack = contextlib.AsyncExitStack()
        self.tasks = await self.stack.enter_async_context(asyncio.TaskGroup())
        return "Go."

    async def step(self, action: Action) -> StepResult:
        return StepResult(str(await self.tasks.create_task(asyncio.sleep(0, len(action.text)))))

    async def close(self) -> None:
        await self.stack.aclose()


class Thread(Environment[Task]):
    """A thread of its own, joined."""

    async def reset(self, scenario: Task) -> Any:
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.stop.wait)
        self.thread.start()
        return "Go."

    async def step(self, action: Action) -> StepResult:
        return StepResult("ok")

    async def close(self) -> None:
        self.stop.set()
        self.thread.join()


class Executor(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        self.pool = ThreadPoolExecutor(1)
        return "Go."

    async def step(self, action: Action) -> StepResult:
        size = await asyncio.get_running_loop().run_in_executor(self.pool, len, action.text)
        return StepResult(str(size))

    async def close(self) -> None:
        self.pool.shutdown()


class ToThread(Environment[Task]):
    """Blocking work, off the event loop."""

    async def reset(self, scenario: Task) -> Any:
        return "Go."

    async def step(self, action: Action) -> StepResult:
        sizes = await asyncio.gather(*(asyncio.to_thread(len, action.text) for _ in range(3)))
        return StepResult(str(sizes))


class Measures(Environment[Task]):
    """Measures how long it takes, and limits it."""

    async def reset(self, scenario: Task) -> Any:
        self.until_s = time.monotonic() + 30
        return "Go."

    async def step(self, action: Action) -> StepResult:
        began_s = time.perf_counter()
        await asyncio.sleep(0.001)
        late = time.monotonic() > self.until_s
        return StepResult("late" if late else "in time", metrics={"search_s": time.perf_counter() - began_s})


class MeasuresInManyWords(Environment[Task]):
    """Metrics of times, by the names that people give them."""

    names = "time/step", "stepTime", "elapsed_seconds", "avg_latency", "latency_p50", "runtime", "tokens_per_second"

    async def reset(self, scenario: Task) -> Any:
        return "Go."

    async def step(self, action: Action) -> StepResult:
        return StepResult("ok", metrics=dict.fromkeys(self.names, time.perf_counter()))


class SeedsAndRestores(Environment[Task]):
    """What it takes from the global generator, nobody misses."""

    async def reset(self, scenario: Task) -> Any:
        before = random.getstate()
        random.seed(scenario.id)
        number = random.random()
        random.setstate(before)
        return f"Say {number}."

    async def step(self, action: Action) -> StepResult:
        return StepResult("ok")


class OwnDeadline(Environment[Task]):
    """A deadline of its own, which cancels what is late and goes on."""

    async def reset(self, scenario: Task) -> Any:
        return "Go."

    async def step(self, action: Action) -> StepResult:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        await asyncio.sleep(0.001)
        return StepResult("late")


class TellsAGivenTime(Environment[Task]):
    """A date that comes from the scenario; the classes of `datetime` are used, the clock is not."""

    async def reset(self, scenario: Task) -> Any:
        self.now = datetime.fromtimestamp(1_700_000_000 + scenario.seed, UTC)
        assert isinstance(self.now, datetime)
        return f"It is {self.now.isoformat()}."

    async def step(self, action: Action) -> StepResult:
        return StepResult(f"{datetime(2030, 1, 1, tzinfo=UTC) - self.now} to go")


class LooksAtTypes(Environment[Task]):
    """Asks for a class by identity, as few do."""

    names = {datetime: "time", str: "text"}  # noqa: RUF012  # never changed

    async def reset(self, scenario: Task) -> Any:
        self.value = datetime(2030, 1, 1, tzinfo=UTC)
        return f"A {self.names[type(self.value)]}; {type(self.value) is datetime}."

    async def step(self, action: Action) -> StepResult:
        return StepResult(f"{datetime in self.names}")


class Verdict(BaseModel):
    good: bool
    parts: list[str] = []


class Structured(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        return "Judge."

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, outcome=Verdict(good=bool(action.text), parts=action.text.split()))


@dataclass
class Place:
    x: int
    seen: set[str]


class DataclassOutcome(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        self.place = Place(0, set())
        return "Walk."

    async def step(self, action: Action) -> StepResult:
        self.place.x += 1
        self.place.seen |= set(action.text.split())
        return StepResult(f"{self.place.x}", done=self.place.x >= 2, outcome=self.place)


class SortedSet(Environment[Task]):
    """A set, shown in order."""

    async def reset(self, scenario: Task) -> Any:
        return f"Choose from {sorted(set(scenario.words))}."

    async def step(self, action: Action) -> StepResult:
        return StepResult(str(sorted(set(action.text))))


class Pictures(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        return [{"role": "user", "content": list(PICTURE)}]

    async def step(self, action: Action) -> StepResult:
        return StepResult([{"role": "user", "content": list(PICTURE)}])


class OwnLength(Environment[Task]):
    """As many turns as the scenario says."""

    async def reset(self, scenario: Task) -> Any:
        self.max_turns = scenario.seed
        return "Be brief."

    async def step(self, action: Action) -> StepResult:
        return StepResult("and?")


class Isolated(Environment[Task]):
    """Code that seeds the global generator is given one of its own."""

    async def reset(self, scenario: Task) -> Any:
        self.state = random.Random(scenario.seed).getstate()
        return "Roll."

    async def step(self, action: Action) -> StepResult:
        before = random.getstate()
        random.setstate(self.state)
        rolled = random.randint(1, 6)
        self.state = random.getstate()
        random.setstate(before)
        return StepResult(str(rolled))


class OneAtATime(Environment[Task]):
    """Waits for a slot that all episodes share."""

    slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}  # noqa: RUF012  # on purpose

    async def reset(self, scenario: Task) -> Any:
        self.slot = self.slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(1))
        return "Go."

    async def step(self, action: Action) -> StepResult:
        async with self.slot:
            await asyncio.sleep(0.001)
        return StepResult("went")


episode_name: contextvars.ContextVar[str] = contextvars.ContextVar("episode_name")


class ContextLocal(Environment[Task]):
    async def reset(self, scenario: Task) -> Any:
        episode_name.set(scenario.id)
        return "Go."

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(0)
        return StepResult(f"this is {episode_name.get()}")


class Configured(Environment[Task]):
    def __init__(self, bonus: float) -> None:
        self.bonus = bonus

    async def reset(self, scenario: Task) -> Any:
        return "Go."

    async def step(self, action: Action) -> StepResult:
        return StepResult(done=True, reward=self.bonus)


def make_configured() -> Environment[Any]:
    return Configured(0.5)


RIGHT: list[Callable[[], Environment[Any]]] = [
    Echo, SeededByScenario, NumPySeededByScenario, Slow, Tools, OwnHistory, SharedConstant, Cached, Memoised,
    CountsOnTheSide, Database, DatabaseFile, SharedDatabase, Server, Subprocess, Background, TaskGroup, Thread,
    Executor, ToThread, Measures, TellsAGivenTime, LooksAtTypes, Structured, DataclassOutcome, SortedSet, Pictures, OwnLength,
    Isolated, MeasuresInManyWords, SeedsAndRestores, OwnDeadline, OneAtATime, ContextLocal, make_configured, functools.partial(Configured, bonus=2.0),
]  # fmt: skip
PROMPTS = [PromptScenario(id="sum", messages="What is 2 + 3?", label="5")]  # type: ignore[arg-type]  # one user message

if not sys.platform.startswith("linux"):
    RIGHT.remove(Subprocess)
