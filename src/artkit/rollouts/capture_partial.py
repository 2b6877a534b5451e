"""An existing rollout function, wrapped so that its turns survive its errors."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import openai

from artkit.bridge import error_chain, model_turns, with_recorded_client
from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.rollouts.attempt import Attempt, Failed
from artkit.rollouts.ending import fail, finish
from artkit.rollouts.grouping import as_episode, failure_of
from artkit.rollouts.recorder import ExchangeRecorder
from artkit.rollouts.unfinished import unfinished_trajectory
from artkit.transport import own_cancellation

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Scenario

__all__ = ["CapturedRollout", "capture_partial"]


def capture_partial(
    fn: Callable[..., Awaitable[art.Trajectory | None]], *, failure_policy: FailurePolicy | None = None
) -> CapturedRollout:
    """Wrap a rollout function so that an error after the model's first turn leaves a partial episode.

    Args:
        fn: Either `async (model, scenario) -> art.Trajectory`, unchanged: what it asks of `model.openai_client()` is
            recorded on the way, and where it asks by a client of its own, the trajectory that it was writing, or that
            ART was capturing, is found in the calls that the error ended. Or `async (model, scenario, episode)`, which
            writes its turns into `episode.messages_and_choices` itself and may return nothing.
        failure_policy: What follows from each kind of failure; the default is `FailurePolicy()`.

    Returns:
        A rollout for `gather_groups`, the `Trainer`, or a plain ART loop.

    Raises:
        ConfigurationError: `fn` takes neither two nor three arguments.
    """
    return CapturedRollout(fn, failure_policy or FailurePolicy(), takes_episode=_takes_episode(fn))


@dataclass(frozen=True)
class CapturedRollout:
    """What `capture_partial` returns; called like a `Rollout`."""

    fn: Callable[..., Awaitable[art.Trajectory | None]]
    failure_policy: FailurePolicy
    takes_episode: bool = field(kw_only=True)

    async def __call__(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> art.Trajectory:
        """Run the function once.

        Returns:
            Its trajectory as an `Episode`, or the partial episode when it failed after the model's first turn.

        Raises:
            Exception: What made it fail before the model's first turn, or a fatal failure at any time.
        """
        attempt = await self.attempt(model, scenario, member)
        if isinstance(attempt, Failed):
            raise attempt.error
        return attempt

    async def attempt(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Attempt:
        """Run the function once and return the episode, or the failure where there is none to return."""
        started_s = time.perf_counter()
        replays = 0
        while True:
            attempt = await self._run(model, scenario, member)
            failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
            if failure is None or not self.failure_policy.replays(failure.kind, after=replays):
                break
            replays += 1
        return finish(attempt, started_s=started_s, retries=replays) if isinstance(attempt, Episode) else attempt

    async def _run(self, model: art.Model[Any, Any], scenario: Scenario, member: int) -> Attempt:
        began_s = time.time()
        episode = Episode(scenario=scenario, member=member, metadata={"scenario_id": scenario.id})
        recorder = ExchangeRecorder()
        recorded = with_recorded_client(model, recorder)
        arguments = (recorded, scenario, episode) if self.takes_episode else (recorded, scenario)
        try:
            with own_cancellation("the rollout", EnvironmentContractError):
                returned = await self.fn(*arguments)
            if returned is None and self.takes_episode:
                returned = episode
            result = as_episode(returned, scenario, member)
        except Exception as error:  # noqa: BLE001  # a user's rollout may raise anything; the policy sorts it
            if not model_turns(episode):
                recorder.write_turns(episode)
            if not model_turns(episode) and (found := unfinished_trajectory(error, began_s=began_s)) is not None:
                episode = cast("Episode", as_episode(found, scenario, member))
            return self._partial(
                episode, error, recorder.error_behind(error) or _error_of_endpoint(error, model), recorder
            )
        if result is episode:
            _keep_own_reward(episode)
        if isinstance(result, Episode):
            _count(result, recorder)
        return result

    def _partial(
        self, episode: Episode, error: Exception, behind: BaseException | None, recorder: ExchangeRecorder
    ) -> Episode | Failed:
        """Return the episode as one that failed, by the request's error `behind` or else by the function's own."""
        if behind is not None:
            kind = self.failure_policy.classify(behind, waiting_for="model")
        else:
            kind = self.failure_policy.classify(error, waiting_for="environment")
        if kind is FailureKind.FATAL or not model_turns(episode):
            return Failed(error, FailureRecord.from_exception(error, kind), behind)
        _keep_own_reward(episode)
        fail(episode, error, kind)
        _count(episode, recorder)
        return episode


def _error_of_endpoint(error: BaseException, model: Any) -> openai.APIError | None:
    """Return the error of a request to the model's endpoint, by whatever client, that `error` is or came from."""
    endpoint = getattr(model, "inference_base_url", None)
    for link in error_chain(error):
        if endpoint and isinstance(link, openai.APIError) and str(link.request.url).startswith(endpoint):
            return link
    return None


def _keep_own_reward(episode: Episode) -> None:
    # No environment was played: the function's own reward is what `EnvironmentReward` finds.
    episode.environment_reward = episode.environment_reward or episode.reward


def _count(episode: Episode, recorder: ExchangeRecorder) -> None:
    for name, value in recorder.tokens.items():
        episode.metrics.setdefault(name, value)


def _takes_episode(fn: Callable[..., Any]) -> bool:
    positional = [
        parameter
        for parameter in inspect.signature(fn).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    required = [parameter for parameter in positional if parameter.default is parameter.empty]
    if len(required) not in {2, 3}:
        raise ConfigurationError(
            f"{fn!r} takes {len(required)} arguments",
            "give `async (model, scenario)` or `async (model, scenario, episode)`",
        )
    return len(required) == 3  # model, scenario and the episode
