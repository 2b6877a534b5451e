"""The turn loop: one environment, one scenario, and whoever acts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from artkit.bridge.safe_values import safe_number
from artkit.environments.action import Action, with_ids
from artkit.environments.closing import run_then_close
from artkit.environments.messages import as_messages, as_sent, as_tools
from artkit.environments.step_result import StepResult
from artkit.episodes import StopReason
from artkit.errors import EnvironmentContractError
from artkit.transport import Deadline, pass_on_cancellation

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

    from artkit.environments.environment import Environment
    from artkit.episodes import Episode
    from artkit.transport import ConcurrencyLimit

__all__ = ["Actor", "Play", "play"]

# Names that the episode's own metrics or ART's log use; an environment's metric of that name would be mixed up with it.
RESERVED_METRICS = frozenset({
    "completion_tokens", "duration_s", "error", "exception_rate", "exceptions", "prompt_tokens", "retries", "reward",
    "reward_std_dev", "truncated", "turns",
})  # fmt: skip


class Actor(Protocol):
    """Whoever decides the next reply: a model, or a recording played again."""

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        """Return the reply to `messages`.

        Called once per turn, never concurrently for one episode. `messages` must not be changed or kept: the loop adds
        to it. Whatever it raises ends the play and reaches its caller.
        """


class Play:
    """One play of a scenario, written into `episode` as it happens, so that whatever is raised, the turns stay.

    Args:
        environment: A fresh environment. It is not closed here: whoever made it closes it (`run_then_close`).
        actor: Who replies.
        episode: Where turns, metrics and the end are written.
        max_turns: A limit beside the environment's own; the smaller holds. None means no further limit.
        step_timeout_s: What the environment's `step_within` is given: how long one `step` may take, or each tool of a
            `ToolEnvironment` that has no `tool_timeout_s` of its own. None means no limit.
        turn_timeout_s: How long one turn may take: the reply and the `step` that answers it. None means no limit.
        stop_when_truncated: Whether the first reply that was cut off at its token limit ends the episode. If not, it
            goes to `step`, with the finish reason "length".
        step_slots: Held during each `step`; None is no limit on how many run at once.

    Attributes:
        waiting_for: Whom the play is waiting for, or was when it was cut short.
    """

    def __init__(
        self,
        environment: Environment[Any],
        actor: Actor,
        episode: Episode,
        *,
        max_turns: int | None = None,
        step_timeout_s: float | None = None,
        turn_timeout_s: float | None = None,
        stop_when_truncated: bool = True,
        step_slots: ConcurrencyLimit | None = None,
    ) -> None:
        self.waiting_for: Literal["model", "environment"] = "environment"
        self._environment = environment
        self._actor = actor
        self._episode = episode
        self._max_turns = max_turns
        self._step_timeout_s = step_timeout_s
        self._turn_timeout_s = turn_timeout_s
        self._stop_when_truncated = stop_when_truncated
        self._step_slots = step_slots or contextlib.nullcontext()
        self._cancelled_before = 0
        self._messages: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Play until the environment is done or a limit ends the episode.

        Raises:
            EnvironmentContractError: The environment broke a promise.
            TimeoutError: One turn took longer than `turn_timeout_s`, or one `step` longer than `step_timeout_s`.
            Exception: Whatever the environment or the actor raised.
        """
        episode = self._episode
        episode.metrics["turns"] = 0
        self._cancelled_before = _cancellations()
        start = await self._environment.reset(episode.scenario)
        pass_on_cancellation(self._cancelled_before)
        self._extend(as_messages(start, "reset()"))
        if not any(message.get("content") for message in self._messages):
            raise EnvironmentContractError(
                "reset() gave no message with a text, so the model would never see the task",
                "return the task as a message",
            )
        tools = as_tools(self._environment.tools())
        episode.tools = tools  # type: ignore[assignment]  # ART's typed dicts are plain dicts here
        turn = 0

        def in_words() -> str:
            return f"turn {turn} took longer than {self._turn_timeout_s} s while waiting for the {self.waiting_for}"

        for turn in range(self._turns()):
            async with Deadline(self._turn_timeout_s, in_words):
                reason = await self._turn(turn, tools)
            if reason is not None:
                episode.stop_reason = reason
                return
        episode.stop_reason = StopReason.MAX_TURNS

    async def _turn(self, turn: int, tools: list[dict[str, Any]] | None) -> StopReason | None:
        """Play one turn; return why the episode is over, or None."""
        episode = self._episode
        self.waiting_for = "model"
        choice = await self._actor.act(self._messages, tools, turn)
        self.waiting_for = "environment"
        episode.messages_and_choices.append(choice)
        message = with_ids(choice.message, turn)
        self._messages.append(as_sent(message, tools))
        episode.metrics["turns"] = turn + 1
        if choice.finish_reason == "length":
            episode.metrics["truncated"] = True
            if self._stop_when_truncated:
                # A reply that was cut off is not run: half a command is not what the model meant.
                return StopReason.TRUNCATED
        return StopReason.DONE if await self._step(Action(message, choice.finish_reason)) else None

    def _turns(self) -> int:
        # Asked after `reset`, which may have set it from the scenario.
        own = self._environment.max_turns
        if not isinstance(own, int) or own < 1:
            raise EnvironmentContractError(f"max_turns={own!r} leaves no turn", "give a whole number from 1")
        return own if self._max_turns is None else min(own, self._max_turns)

    async def _step(self, action: Action) -> bool:
        async with self._step_slots:
            result = await self._environment.step_within(action, self._step_timeout_s)
        pass_on_cancellation(self._cancelled_before)
        if not isinstance(result, StepResult):
            raise EnvironmentContractError(f"step() returned {result!r}", "return a StepResult")
        reward = safe_number(result.reward)
        if reward is None:
            raise EnvironmentContractError(f"step() gave reward={result.reward!r}", "give a finite number")
        self._extend(as_messages(result.messages, "step()"))
        self._episode.environment_reward += float(reward)
        self._add_metrics(result.metrics)
        if result.outcome is not None:
            self._episode.outcome = result.outcome
        return result.done

    def _extend(self, messages: list[dict[str, Any]]) -> None:
        self._messages.extend(messages)
        self._episode.messages_and_choices.extend(messages)  # type: ignore[arg-type]  # as above

    def _add_metrics(self, metrics: Mapping[str, float | int | bool]) -> None:
        own = self._episode.metrics
        for name, value in metrics.items():
            if name in RESERVED_METRICS:
                raise EnvironmentContractError(
                    f"step() gave a metric called {name!r}, which artkit or ART logs itself", "give it another name"
                )
            number = safe_number(value)
            if number is None:
                raise EnvironmentContractError(
                    f"step() gave metric {name}={value!r}", "give finite numbers and bools; leave out what is unknown"
                )
            own[name] = number if isinstance(number, bool) else own.get(name, 0) + number


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def play(
    environment: Environment[Any],
    actor: Actor,
    episode: Episode,
    *,
    max_turns: int | None = None,
    step_timeout_s: float | None = None,
    stop_when_truncated: bool = True,
) -> Episode:
    """Play `episode.scenario` in `environment` with `actor` and return the episode, `reward` set to the step rewards.

    Takes the arguments of `Play` and raises what `Play.run` raises; the turns played until then are in `episode`.
    """
    game = Play(
        environment,
        actor,
        episode,
        max_turns=max_turns,
        step_timeout_s=step_timeout_s,
        stop_when_truncated=stop_when_truncated,
    )
    await run_then_close(game.run, environment, episode, close_timeout_s=step_timeout_s)
    episode.reward = episode.environment_reward
    return episode
