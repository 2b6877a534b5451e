"""Replaying recorded episodes: the same replies in a fresh environment, and where it answers otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice

from artkit.environments.check.plain import error_text
from artkit.environments.check.trace import Difference, Trace, first_difference
from artkit.environments.closing import run_then_close
from artkit.environments.environment import Environment
from artkit.environments.play import Play
from artkit.environments.replay_report import Divergence, ReplayReport, SkippedEpisode
from artkit.environments.scenario_type import scenario_type_of
from artkit.episodes import Episode, FailureKind, Recordings, StopReason, iter_episodes
from artkit.episodes.recorded_values import dump_object, to_line
from artkit.errors import ConfigurationError

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Scenario

__all__ = ["replay"]

_COMPARED_ENDS = {StopReason.DONE, StopReason.MAX_TURNS, StopReason.TRUNCATED}


async def replay(
    recording: Recordings,
    environment: Callable[[], Environment[Any]],
    *,
    scenarios: Iterable[Scenario] = (),
    call_timeout_s: float | None = 60.0,
) -> ReplayReport:
    """Play the recorded replies of each episode in a fresh `environment` and report where it first answers otherwise.

    Compared are messages and tools, and of an episode that came to its own end also the sum of the step rewards, the
    environment's metrics but for those that measure a time, the outcome and how it ended. No model is asked.

    Args:
        recording: A path, groups or episodes that were loaded, or several of these.
        environment: The `Environment` class or factory.
        scenarios: The scenario objects. An episode whose scenario is not among them and was recorded as fields gets
            one made of these, of the class that the environment names as in `Environment[MyScenario]`.
        call_timeout_s: How long one call of `reset`, `step` or `close` may take, in seconds, or each tool of a
            `ToolEnvironment` that has no `tool_timeout_s` of its own. A call that takes longer is cancelled, and is a
            divergence unless it is `close`. None is no limit.

    Raises:
        ConfigurationError: `environment` is an instance, `recording` is none, or `call_timeout_s` is not positive.

    >>> import asyncio
    >>> from artkit.environments import StepResult
    >>> from artkit.scenarios import Scenario
    >>> from artkit.testing import choice, episode
    >>> class Echo(Environment[Scenario]):
    ...     async def reset(self, scenario):
    ...         return "Say something."
    ...
    ...     async def step(self, action):
    ...         return StepResult(action.text.upper(), done=True)
    >>> played = episode("Say something.", choice("hi"), "hi", scenario=Scenario(id="a"))
    >>> print(asyncio.run(replay(played, Echo)))
    1 episode replayed, 1 diverged, 0 skipped
    scenario 'a', member 0, turn 1: the messages differ
        expected [{'role': 'user', 'content': 'hi'}]
        got      [{'role': 'user', 'content': 'HI'}]
    """
    if isinstance(environment, Environment) or not callable(environment):
        raise ConfigurationError(
            f"environment={environment!r} cannot make a fresh environment for each episode",
            "pass the class, or a function without arguments that returns a new instance",
        )
    if call_timeout_s is not None and not call_timeout_s > 0:
        raise ConfigurationError(f"call_timeout_s={call_timeout_s!r} is not positive", "give seconds, or None")
    kind: type[Scenario] | None = None
    divergences: list[Divergence] = []
    skipped: list[SkippedEpisode] = []
    replayed = 0
    for recorded in iter_episodes(recording, scenarios):
        name = str(recorded.metadata.get("scenario_id", ""))
        member = recorded.member if isinstance(recorded, Episode) else 0
        if isinstance(scenario := getattr(recorded, "scenario", None), dict):
            kind = kind or scenario_type_of(environment)
            try:
                scenario = kind.model_validate(scenario)
            except ValueError as error:
                why = f"its scenario is no {kind.__name__}: {error}"
                skipped.append(SkippedEpisode(scenario_id=name, member=member, why=why))
                continue
        if scenario is None or not isinstance(recorded, Episode):
            why = "the recording does not hold its scenario"
            skipped.append(SkippedEpisode(scenario_id=name, member=member, why=why))
            continue
        replayed += 1
        difference = await _Replaying(recorded, scenario, call_timeout_s).difference(environment)
        if difference is not None:
            divergences.append(
                Divergence(
                    scenario_id=name or str(getattr(scenario, "id", "")),
                    member=member,
                    turn=difference.turn,
                    what=difference.what,
                    expected=difference.expected,
                    got=difference.got,
                )
            )
    return ReplayReport(divergences=tuple(divergences), replayed=replayed, skipped=tuple(skipped))


@dataclass
class _Replaying:
    """One recorded episode that is played again; the actor of its play."""

    recorded: Episode
    scenario: Any
    call_timeout_s: float | None
    replies: list[Choice] = field(init=False)
    resetting: asyncio.Timeout = field(init=False)

    def __post_init__(self) -> None:
        self.replies = [turn for turn in self.recorded.messages_and_choices if isinstance(turn, Choice)]

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        """Return the recorded reply of this turn."""
        self.resetting.reschedule(None)  # `step` has a deadline of its own
        return self.replies[turn]

    async def difference(self, make: Callable[[], Environment[Any]]) -> Difference | None:
        episode = Episode(scenario=self.scenario)
        error = ""
        try:
            environment = make()
            game = Play(
                environment,
                self,
                episode,
                max_turns=len(self.replies),
                step_timeout_s=self.call_timeout_s,
                # A rollout may have been told to play on after a reply that was cut off.
                stop_when_truncated=self.recorded.stop_reason is StopReason.TRUNCATED,
            )
            await run_then_close(lambda: self._run(game), environment, episode, close_timeout_s=self.call_timeout_s)
        except Exception as caught:  # noqa: BLE001  # an environment may raise anything, also where it did not before
            error = error_text(caught)
        failure = self.recorded.failure
        if failure is not None and failure.kind is FailureKind.ENVIRONMENT and str(failure) == error:
            error = ""  # it fails as it did
        expected, got = _trace(self.recorded), _trace(episode, error)
        if failure is None and self.recorded.stop_reason in _COMPARED_ENDS:
            self._add_end(expected, self.recorded, episode)
            self._add_end(got, episode, episode)
        else:  # it was cut short: what came after its last entry was never seen
            if expected.entries[-1][0] and not expected.entries[-1][2]:
                expected.entries.pop()
            del got.entries[len(expected.entries) :]
        return first_difference(expected, got)

    async def _run(self, game: Play) -> None:
        self.resetting = asyncio.timeout(self.call_timeout_s)
        try:
            async with self.resetting:
                await game.run()
        except TimeoutError as error:
            if self.resetting.expired():
                raise TimeoutError(f"reset() took longer than {self.call_timeout_s} s") from error
            raise

    def _add_end(self, trace: Trace, episode: Episode, replayed: art.Trajectory) -> None:
        turn = len(self.replies)
        own = {name: episode.metrics.get(name) for name in replayed.metrics}
        trace.add(turn, "the step rewards", episode.environment_reward)
        trace.add_metrics(turn, own)
        trace.add(turn, "the outcome", json.loads(to_line(dump_object(episode.outcome)[0])))
        trace.add(turn, "the end", episode.stop_reason)


def _trace(episode: Episode, error: str = "") -> Trace:
    """Return the messages of an episode, turn by turn, and its tools, as a trace; and the error that ended it."""
    said: list[list[Any]] = [[]]
    for entry in episode.messages_and_choices:
        if isinstance(entry, Choice):
            said.append([])
        else:
            said[-1].append(entry)
    trace = Trace()
    for turn, messages in enumerate(said):
        is_last = turn == len(said) - 1
        if error and is_last:
            trace.add(turn, "an error", error)
        if turn:
            trace.add(turn, "whether it goes on", not is_last)
        trace.add(turn, "the messages", messages)
        if not turn:
            _add_tools(trace, episode.tools)
    return trace


def _add_tools(trace: Trace, tools: Any) -> None:
    """Add the names of the tools, then each tool, so that a difference says which it is of."""
    named = [(_name_of(tool), tool) for tool in tools or ()]
    trace.add(0, "the tools", [name for name, _ in named])
    for name, tool in named:
        trace.add(0, f"the tool {name!r}", tool)


def _name_of(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return function.get("name") if isinstance(function, Mapping) else None
