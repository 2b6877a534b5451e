"""An environment under watch: every call goes to the real one, and what it returns is written down."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.environments.check.finding import LikelyCause, Promise
from artkit.environments.check.plain import error_text, odd_type, plain, without_addresses
from artkit.environments.check.slices import GivenUpError
from artkit.environments.check.tools import tools_problem
from artkit.environments.check.trace import FIRST_MESSAGES, Trace
from artkit.environments.environment import Environment
from artkit.environments.messages import as_messages
from artkit.environments.step_result import StepResult
from artkit.errors import EnvironmentContractError

if TYPE_CHECKING:
    from artkit.environments.action import Action
    from artkit.environments.check.surroundings import Surroundings

__all__ = ["Fault", "Returned", "Watched", "says_something"]


class Fault(Exception):  # noqa: N818  # it is what was found, not an error of the check
    """A promise that a single play shows to be broken."""

    def __init__(self, code: Promise, turn: int, what: str, cause: LikelyCause, evidence: str = "") -> None:
        super().__init__(code, turn, what, cause, evidence)
        self.code, self.turn, self.what, self.cause, self.evidence = code, turn, what, cause, evidence

    def of(self, code: Promise) -> Fault:
        """Return the same as a fault against another promise."""
        return Fault(code, self.turn, self.what, self.cause, self.evidence)


class Returned:
    """The lists and dicts that were returned, by identity: one that comes again with other content is shared.

    Attributes:
        shared: What was returned again, and with what; of all plays that this is used for.
    """

    def __init__(self) -> None:
        self.shared: list[str] = []
        self._seen: dict[int, tuple[Any, Any, object]] = {}  # kept alive, or its identity would be given anew

    def note(self, value: Any, source: str, play: object) -> bool:
        """Note `value`; whether it, or something in it, was returned before in this play with other content."""
        parts = [value, *value] if isinstance(value, list) else [value]
        is_again = False
        for part in parts:
            if not isinstance(part, list | dict) or not part:
                continue
            _, before, owner = self._seen.get(id(part), (None, None, None))
            now = plain(part)
            if before is not None and before != now:
                self.shared.append(f"the {type(part).__name__} that {source} returned")
                is_again = is_again or owner is play
            self._seen[id(part)] = (part, now, play)
        return is_again


class Watched(Environment[Any]):
    """Passes every call on to a fresh environment, within `surroundings`, and writes a trace.

    Args:
        make: The class or factory.
        surroundings: What the environment runs in.
        returned: Where what it returns is noted.
        call_timeout_s: How long one call may take; None is no limit.

    Attributes:
        inner: The environment itself.
        trace: What it did.
        given: The messages it gave, in order, each with a copy.
        outcome: A copy of the outcome that came last.
        turn: The number of replies so far.
        faults: Broken promises that did not end the play.
        is_cancel_swallowed: Whether a call came back with an answer though it was cancelled.
        close_fault: What was wrong with `close`.
        odd_outcome: The class of what in an outcome is no data; "" where all is.
        is_asked_after_end: Whether one more reply is given once it is done, before it is closed.
        after_end: What that was answered with; None where nothing was.
        answered: The tools that were called, and whether a call of them did not end in `tool_errors`.

    Raises:
        Fault: The factory failed, or made something else.
    """

    def __init__(
        self,
        make: Callable[[], Environment[Any]],
        surroundings: Surroundings,
        *,
        returned: Returned | None = None,
        call_timeout_s: float | None = None,
    ) -> None:
        self.trace = Trace()
        self.given: list[tuple[Any, Any]] = []
        self.is_cancel_swallowed = False
        self.outcome: Any = None
        self.turn = 0
        self.faults: list[Fault] = []
        self.close_fault: Fault | None = None
        self.odd_outcome = ""
        self.is_asked_after_end = False
        self.after_end: StepResult | None = None
        self.answered: dict[str, bool] = {}
        self._last: tuple[Action, bool] | None = None
        self._surroundings = surroundings
        self._returned = returned or Returned()
        self._call_timeout_s = call_timeout_s
        try:
            self.inner = surroundings.call(make, "the factory")
        except Fault:
            raise
        except Exception as error:
            raise Fault(Promise.ANSWERS, 0, f"making it raised {error_text(error)}", LikelyCause.EXCEPTION) from error
        if not isinstance(self.inner, Environment):
            what = f"the factory returned {type(self.inner).__name__}, no Environment"
            raise Fault(Promise.TYPES, 0, what, LikelyCause.RETURN_VALUE)

    async def reset(self, scenario: Any) -> Any:
        """Begin, and write down what the first messages are."""
        raw = await self._called("reset", lambda: self.inner.reset(scenario))
        messages = self._messages(raw, "reset()")
        self.trace.add(0, FIRST_MESSAGES, messages)
        if not any(says_something(message) for message in messages):
            what = f"the prompt is missing from the first request: reset() returned {raw!r}"
            raise Fault(Promise.PROMPT, 0, what, LikelyCause.RETURN_VALUE)
        self.max_turns = self.inner.max_turns
        self.trace.add(0, "max_turns", self.max_turns)
        return raw

    def tools(self) -> Sequence[Any]:
        """Ask for the tools and write them down."""
        try:
            tools = self._surroundings.call(self.inner.tools, "tools")
        except Exception as error:
            raise Fault(Promise.ANSWERS, 0, f"tools() raised {error_text(error)}", LikelyCause.EXCEPTION) from error
        if inspect.iscoroutine(tools):
            tools.close()
            what = "tools() is async: the loop asks for them with a plain call"
            raise Fault(Promise.TYPES, 0, what, LikelyCause.RETURN_VALUE)
        if problem := tools_problem(tools):
            raise Fault(Promise.TYPES, 0, f"tools() gave {problem}", LikelyCause.RETURN_VALUE)
        self.trace.add(0, "the tools", tools)
        self._note(list(tools) if isinstance(tools, tuple) else tools, "tools()")
        return tools

    async def step(self, action: Action) -> StepResult:
        """Pass the reply on and write down the answer."""
        self.turn += 1
        result: Any = await self._called("step", lambda: self.inner.step(action))
        if not isinstance(result, StepResult):
            what = f"step() returned {plain(result)!r}, no StepResult"
            raise Fault(Promise.TYPES, self.turn, what, LikelyCause.RETURN_VALUE)
        if not isinstance(result.done, bool):
            what = f"step() gave done={result.done!r}, which is {type(result.done).__name__} and not bool"
            raise Fault(Promise.TYPES, self.turn, what, LikelyCause.RETURN_VALUE)
        self.trace.add(self.turn, "the messages", self._messages(result.messages, "step()"))
        self.trace.add(self.turn, "the reward", result.reward)
        self.trace.add(self.turn, "done", result.done)
        self.trace.add_metrics(self.turn, result.metrics)
        self.trace.add(self.turn, "the outcome", result.outcome)
        if result.outcome is not None:
            self.outcome = plain(result.outcome)
            self.odd_outcome = self.odd_outcome or odd_type(result.outcome)
        self._note_calls(action, result.metrics)
        self._last = action, result.done
        return result

    async def close(self) -> None:
        """Close the environment, and remember what that raised."""
        if self.is_asked_after_end and self._last is not None and self._last[1]:
            with contextlib.suppress(Fault):  # to refuse is right too
                answer: Any = await self._called("step", functools.partial(self.inner.step, self._last[0]))
                self.after_end = answer if isinstance(answer, StepResult) else None
        try:
            await self._called("close", self.inner.close)
        except Fault as fault:
            is_raised = fault.code is Promise.ANSWERS
            self.close_fault = fault.of(Promise.CLOSES) if is_raised else fault
            raise

    async def _called(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await one call of the environment.

        Raises:
            Fault: It raised, was too slow, did not end when it was cancelled, or is not async.
        """
        deadline = asyncio.timeout(self._call_timeout_s)
        cancelled_before = _cancellations()
        try:
            async with deadline:
                awaitable = self._surroundings.call(call, name)
                if not inspect.isawaitable(awaitable):
                    what = f"{name}() is not async: it returned {plain(awaitable)!r}"
                    raise Fault(Promise.TYPES, self.turn, what, LikelyCause.RETURN_VALUE)  # noqa: TRY301  # like others
                answer = await self._surroundings.wait(awaitable, name)
                # A deadline of the environment's own that cancelled it has taken that back by now.
                self.is_cancel_swallowed |= _cancellations() > cancelled_before
                return answer
        except Fault:
            raise
        except GivenUpError as error:
            self.is_cancel_swallowed = True
            what = f"{name}() was cancelled, and went on"
            raise Fault(Promise.IN_TIME, self.turn, what, LikelyCause.WAITING) from error
        except Exception as error:
            if deadline.expired():
                what = f"{name}() took longer than {self._call_timeout_s:g} s"
                raise Fault(Promise.IN_TIME, self.turn, what, LikelyCause.WAITING) from error
            is_contract = isinstance(error, EnvironmentContractError)
            code = Promise.TYPES if is_contract else Promise.ANSWERS
            what = f"{name}() raised {error_text(error)}"
            raise Fault(code, self.turn, what, LikelyCause.EXCEPTION, _line_of(error)) from error

    def _messages(self, raw: Any, source: str) -> list[dict[str, Any]]:
        if raw is None and source == "reset()":
            raise Fault(Promise.PROMPT, 0, "the prompt is missing: reset() returned None", LikelyCause.RETURN_VALUE)
        try:
            messages = as_messages(raw, source)
        except EnvironmentContractError as error:
            raise Fault(Promise.TYPES, self.turn, without_addresses(error.problem), LikelyCause.RETURN_VALUE) from error
        self._note(raw, source)
        self.given += [(message, plain(message)) for message in raw if isinstance(message, Mapping)]
        return messages

    def _note_calls(self, action: Action, metrics: Any) -> None:
        errors = metrics.get("tool_errors", 0) if isinstance(metrics, Mapping) else 0
        if not errors or errors == len(action.tool_calls):  # else nobody knows whose they are
            for call in action.tool_calls:
                self.answered[call.name] = self.answered.get(call.name, False) or not errors

    def _note(self, value: Any, source: str) -> None:
        if self._returned.note(value, source, self):
            what = f"{source} returned a list or dict again that it returned before, with other content"
            self.faults.append(
                Fault(Promise.LEAVES_RETURNED, self.turn, what, LikelyCause.SHARED_OBJECT, self._returned.shared[-1])
            )


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def says_something(message: Mapping[str, Any]) -> bool:
    """Whether a message has any content."""
    content = message.get("content")
    if isinstance(content, str):
        return bool(content.strip())
    # A block that is no text says something, whatever it is.
    return any(
        str(block.get("text") or "").strip() if isinstance(block, Mapping) and block.get("type") == "text" else True
        for block in content or ()
    )


def _line_of(error: BaseException) -> str:
    """Return the line of the environment that raised, such as `desk.py:12 in step`."""
    from artkit.episodes import FailureKind, FailureRecord

    return FailureRecord.from_exception(error, FailureKind.ENVIRONMENT).where
