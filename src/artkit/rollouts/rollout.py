"""A rollout: one scenario, played once by a model in a fresh environment."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from artkit.environments import Environment, Play, run_then_close
from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.rollouts.attempt import Failed, note_played, played_of, result_of
from artkit.rollouts.deadlines import episode_deadline
from artkit.rollouts.ending import apart, fail, finish
from artkit.rollouts.model_actor import ModelActor
from artkit.rollouts.replays import replay_failures
from artkit.rollouts.replies import Requests, nested_apart, own_requests
from artkit.rollouts.sampling import Limits, Sampling
from artkit.transport import AbandonedError, ConcurrencyLimit, own_cancellation, own_exits, sampling_session

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Scenario
    from artkit.transport import SamplingClient

__all__ = ["Rollout"]


@dataclasses.dataclass(frozen=True)
class Rollout:
    """Plays scenarios in environments made by `environment`, with any `art.Model` that has an inference endpoint.

    Args:
        environment: An `Environment` class, or a factory without arguments; called once per episode.
        sampling: How replies are sampled.
        limits: Turns and deadlines.
        failure_policy: What follows from each kind of failure.

    Raises:
        ConfigurationError: `environment` is an instance, which rollouts would share.

    >>> class Echo(Environment):
    ...     async def reset(self, scenario):
    ...         return "say anything"
    ...
    ...     async def step(self, action): ...
    >>> Rollout(Echo, limits=Limits(max_turns=3)).limits.max_turns
    3
    """

    environment: Callable[[], Environment[Any]]
    _: dataclasses.KW_ONLY
    sampling: Sampling = dataclasses.field(default_factory=Sampling)
    limits: Limits = dataclasses.field(default_factory=Limits)
    failure_policy: FailurePolicy = dataclasses.field(default_factory=FailurePolicy)
    _step_slots: ConcurrencyLimit = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.environment, Environment) or not callable(self.environment):
            raise ConfigurationError(
                f"environment={self.environment!r} cannot make a fresh environment for each episode",
                "pass the class, or a function without arguments that returns a new instance",
            )
        object.__setattr__(self, "_step_slots", ConcurrencyLimit(self.limits.max_concurrent_steps))

    async def __call__(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Episode:
        """Play `scenario` once.

        Returns:
            The episode: whole, or partial when it failed after the model's first turn (`failure` says why).

        Raises:
            Exception: What made the rollout fail before the model's first turn, or a fatal failure at any time.
        """
        return result_of(await self.attempt(model, scenario, member))

    async def attempt(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Episode | Failed:
        """Play `scenario` once and return the episode, or the failure where there is none to return."""
        started_s = time.perf_counter()
        retries = 0

        async def play(replay: int) -> Episode | Failed:
            nonlocal retries
            try:
                attempt, request_retries = await self._play(client, model, scenario, member, replay)
            except asyncio.CancelledError as error:
                if (played := played_of(error)) is not None:
                    played.reward = played.environment_reward
                    finish(played, started_s=started_s, retries=retries, replays=replay)
                raise
            retries += request_retries
            return attempt

        async with sampling_session(model) as client:
            attempt, replays = await replay_failures(play, self.failure_policy)
        if isinstance(attempt, Failed):
            return dataclasses.replace(attempt, replays=replays)
        attempt.reward = attempt.environment_reward
        return finish(attempt, started_s=started_s, retries=retries, replays=replays)

    async def _play(
        self, client: SamplingClient, model: art.Model[Any, Any], scenario: Scenario, member: int, replay: int
    ) -> tuple[Episode | Failed, int]:
        """Play once in a fresh environment, as repetition `replay`; the int counts requests that were sent again."""
        policy, limits = self.failure_policy, self.limits
        episode = Episode(scenario=scenario, member=member, metadata={"scenario_id": scenario.id})
        try:
            with own_exits("the environment factory", EnvironmentContractError):
                environment = self.environment()
            if not isinstance(environment, Environment):
                raise EnvironmentContractError(  # noqa: TRY301  # sorted below like any failure of the factory
                    f"the environment factory returned {environment!r}", "return a new instance of an Environment"
                )
        except Exception as error:  # noqa: BLE001  # a user's factory may raise anything; the policy sorts it
            return _failed(error, policy.classify(error, waiting_for="environment")), 0
        requests = own_requests()
        actor = ModelActor(
            client,
            model,
            episode,
            sampling=self.sampling,
            request_timeout_s=limits.request_timeout_s,
            failure_policy=policy,
            on_reply=requests.on_reply,
            replay=replay,
        )
        game = Play(
            environment,
            actor,
            episode,
            max_turns=limits.max_turns,
            step_timeout_s=limits.tool_timeout_s,
            turn_timeout_s=limits.turn_timeout_s,
            stop_when_truncated=limits.stop_when_truncated,
            step_slots=self._step_slots,
        )

        async def run() -> None:
            async with episode_deadline(limits.episode_timeout_s, lambda: f"the {game.waiting_for}"):
                await _run_or_tell(game, policy, requests)

        try:
            with own_cancellation("the rollout", EnvironmentContractError), nested_apart():
                await run_then_close(run, environment, episode, close_timeout_s=limits.tool_timeout_s)
        except asyncio.CancelledError as error:
            if episode.stop_reason is not None:  # all that was left to do is the closing
                note_played(error, episode)
            raise
        except Exception as error:  # noqa: BLE001  # environments and servers raise anything; the policy sorts it
            if isinstance(error, AbandonedError):
                episode = apart(episode)
            kind = policy.classify(error, waiting_for=game.waiting_for)
            if kind is FailureKind.FATAL or not episode.metrics.get("turns"):
                return _failed(error, kind, is_request=game.waiting_for == "model"), actor.retries
            fail(episode, error, kind, request_error=error if game.waiting_for == "model" else None)
        return episode, actor.retries


async def _run_or_tell(game: Play, policy: FailurePolicy, requests: Requests) -> None:
    """Run the game; a failure that no other rollout can escape is told before the environment is closed.

    That may take its time, and everybody else is to stop now.
    """
    try:
        await game.run()
    except Exception as error:
        if (kind := policy.classify(error, waiting_for=game.waiting_for)) is FailureKind.FATAL:
            requests.on_fatal(_failed(error, kind, is_request=game.waiting_for == "model"))
        raise


def _failed(error: Exception, kind: FailureKind, *, is_request: bool = False) -> Failed:
    return Failed(error, FailureRecord.from_exception(error, kind), error if is_request else None)
