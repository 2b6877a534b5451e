"""The environments of a soak: puppets, which do what the model tells them to, well or badly."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from openai.types.chat.chat_completion import Choice

from artkit import Scenario, ToolEnvironment, ToolError, ToolResult, tool
from soaking.plan import MEMBERS, Plan, number_of

__all__ = ["Desk", "World", "grade"]


class Abort(BaseException):
    """What some libraries stop their work with."""


@dataclass
class World:
    """What the environments share: who was opened and closed, and when the stubborn ones may end.

    Attributes:
        opened: Every environment that was made.
        open: How many of them are not closed.
        most_open: The most that were open at once.
        released: Set when those that ignore their cancellation are to end.
        ignoring: How many of them are still at it.
        ended: Set when they have ended.
        resets: How often each scenario was reset.
    """

    plan: Plan
    opened: list[Desk] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)
    ignoring: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    resets: Counter[str] = field(default_factory=Counter)

    async def release(self) -> None:
        """End those that go on, and wait until they have."""
        self.released.set()
        if self.ignoring:
            await self.ended.wait()

    async def ignore(self) -> None:
        """Go on, whatever happens, until the soak is over."""
        self.ignoring += 1
        while not self.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.released.wait()
        self.ignoring -= 1
        if not self.ignoring:
            self.ended.set()


class Desk(ToolEnvironment[Scenario]):
    """Holds something of everything, and goes wrong as it is told to.

    Args:
        world: What it shares with all others.

    Attributes:
        closed: How often it was closed.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed = 0
        self.way_of_closing = "well"
        self.pipe: tuple[int, ...] = ()
        self.child: subprocess.Popen[bytes] | None = None
        self.heart: asyncio.Task[Any] | None = None
        world.opened.append(self)
        world.open += 1
        world.most_open = max(world.most_open, world.open)

    async def reset(self, scenario: Scenario) -> str:
        number = number_of(scenario.id)
        self.max_turns = self.world.plan.turns(number)
        self.world.resets[scenario.id] += 1
        self.heart = asyncio.create_task(asyncio.sleep(3_600))
        if number % 8 == 0:
            self.pipe = os.pipe()
        if number % 50 == 7:
            self.child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220
        await self._reset_badly(self.world.plan.reset(number), is_first=self.world.resets[scenario.id] <= MEMBERS)
        return scenario.id

    async def _reset_badly(self, how: str, *, is_first: bool) -> None:
        if how == "raises":
            raise RuntimeError("the world did not start")
        if how == "BaseException":
            raise Abort("the world did not start")
        if how == "hangs" and is_first:
            await asyncio.Event().wait()
        if how == "ignores" and is_first:
            await self.world.ignore()

    @tool
    async def earn(self, points: int) -> ToolResult:
        """Earn some points."""
        return ToolResult(f"You earned {points}.", reward=points)

    @tool
    async def closing(self, how: str) -> str:
        """Say how this environment will close."""
        self.way_of_closing = how
        return "It will."

    @tool
    async def fail(self, how: str) -> str:
        """Raise something."""
        await asyncio.sleep(0)
        raise {
            "ToolError": ToolError("That did not work."),
            "ValueError": ValueError("not so"),
            "LookupError": LookupError("not here"),
            "RuntimeError": RuntimeError("the world fell apart"),
            "ConnectionError": ConnectionRefusedError("the world is gone"),
            "ExceptionGroup": ExceptionGroup("several", [ValueError("this"), OSError("that")]),
            "SystemExit": SystemExit(3),
            "BaseException": Abort("enough"),
            "CancelledError": asyncio.CancelledError(),
        }[how]

    @tool
    def leave(self) -> str:
        """End the process, from a thread."""
        sys.exit("the tool has left")

    @tool
    async def hang(self) -> None:
        """Never answer."""
        await asyncio.Event().wait()

    @tool
    def block(self) -> str:
        """Answer too late, in a thread."""
        time.sleep(1.1 * self.world.plan.settings.tool_timeout_s)
        return "too late"

    @tool
    async def linger(self) -> str:
        """Answer a little too late, for the cancellation is ignored."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "a little too late"

    @tool(timeout_s=math.inf)
    async def wait(self) -> None:
        """Never answer, where nobody but the episode's deadline says so."""
        await asyncio.Event().wait()

    @tool
    async def ignore(self) -> str:
        """Go on whatever happens."""
        await self.world.ignore()
        return "much too late"

    async def close(self) -> None:
        self.closed += 1
        self.world.open -= 1
        for end in self.pipe:
            os.close(end)
        if self.heart is not None:
            self.heart.cancel()
            self.heart = None
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
        match self.way_of_closing:
            case "raises":
                raise RuntimeError("it will not close")
            case "hangs":
                await asyncio.Event().wait()
            case "BaseException":
                raise Abort("it will not close")
            case "ignores":
                await self.world.ignore()


async def grade(episode: Any) -> float | None:
    """Score an episode with what it earned, unless its last words say that this cannot be done."""
    await asyncio.sleep(0)
    last = episode.messages_and_choices[-1]  # of an episode that is done: what the model said at the end
    match str(last.message.content).rpartition(": ")[2] if isinstance(last, Choice) else "done":
        case "raises":
            raise RuntimeError("nobody can say")
        case "nan":
            return math.nan
        case "none":
            return None
    return float(episode.environment_reward)
