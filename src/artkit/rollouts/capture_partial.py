"""An existing rollout function, wrapped so that its turns survive its errors."""

from __future__ import annotations

import dataclasses
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import openai

from artkit.bridge import entered_trajectories, error_chain, model_turns, with_recorded_client
from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import ConfigurationError, EnvironmentContractError
from artkit.rollouts.attempt import Attempt, Failed, result_of
from artkit.rollouts.deadlines import episode_deadline
from artkit.rollouts.ending import apart, fail, finish
from artkit.rollouts.exchange_recorder import ExchangeRecorder
from artkit.rollouts.grouping import as_episode
from artkit.rollouts.replays import replay_failures
from artkit.rollouts.replies import own_requests
from artkit.rollouts.unfinished import unfinished_trajectory
from artkit.transport import AbandonedError, own_cancellation, supervise

if TYPE_CHECKING:
    import art

    from artkit.scenarios import Scenario

__all__ = ["CapturedRollout", "capture_partial"]

# What the function does in `finally` when it is cancelled cannot be told from going on, and must not be cut short.
_GRACE_S = 2.0


def capture_partial(
    fn: Callable[..., Awaitable[art.Trajectory | None]], *, failure_policy: FailurePolicy | None = None
) -> CapturedRollout:
    """Wrap a rollout function so that an error after the model's first turn leaves a partial episode.

    A partial episode has the reward, metrics, metadata and logs that the trajectory in hand had when the error came.
    Where the function had set no reward by then, an episode of a kind of failure that is kept has none (NaN): it is
    scored by a reward adapter, or else leaves its group as one that could not be scored, and is never taken for a 0.

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
        return result_of(await self.attempt(model, scenario, member))

    async def attempt(self, model: art.Model[Any, Any], scenario: Scenario, member: int = 0) -> Attempt:
        """Run the function once and return the episode, or the failure where there is none to return."""
        started_s = time.perf_counter()
        attempt, replays = await replay_failures(lambda _: self._run(model, scenario, member), self.failure_policy)
        if isinstance(attempt, Failed):
            return dataclasses.replace(attempt, replays=replays)
        return finish(attempt, started_s=started_s, replays=replays) if isinstance(attempt, Episode) else attempt

    async def _run(self, model: art.Model[Any, Any], scenario: Scenario, member: int) -> Attempt:
        began_s = time.time()
        episode = Episode(scenario=scenario, member=member, metadata={"scenario_id": scenario.id})
        requests = own_requests()
        recorder = ExchangeRecorder(requests.on_reply)
        # The function may be ready for what a rollout that it plays fails of; what comes out of it is looked at below.
        requests.on_fatal = lambda _: None
        recorded = with_recorded_client(model, recorder)
        arguments = (recorded, scenario, episode) if self.takes_episode else (recorded, scenario)
        with entered_trajectories() as entered:
            try:
                returned = await supervise(lambda: self._call(*arguments), grace_s=_GRACE_S)
                if returned is None and self.takes_episode:
                    returned = episode
                result = as_episode(returned, scenario, member)
            except Exception as error:  # noqa: BLE001  # a user's rollout may raise anything; the policy sorts it
                own = episode if model_turns(episode) else unfinished_trajectory(error, entered, began_s=began_s)
                has_reward = any("reward" in one.model_fields_set for one in (episode, own) if one is not None)
                partial = _partial_of(episode, own, recorder)
                return self._failed(partial, error, _error_of_endpoint(error, model), recorder, has_reward=has_reward)
        if result is episode:
            _keep_own_reward(episode)
        if isinstance(result, Episode):
            _count(result, recorder)
        return result

    async def _call(self, *arguments: Any) -> art.Trajectory | None:
        async with episode_deadline(None, lambda: "the rollout"):
            with own_cancellation("the rollout", EnvironmentContractError):
                return await self.fn(*arguments)

    def _failed(
        self,
        episode: Episode,
        error: Exception,
        behind: BaseException | None,
        recorder: ExchangeRecorder,
        *,
        has_reward: bool,
    ) -> Episode | Failed:
        """Return the episode as one that failed, by the request's error `behind` or else by the function's own."""
        if isinstance(error, AbandonedError):
            episode = apart(episode)
        behind = recorder.error_behind(error) or behind
        if behind is not None:
            kind = self.failure_policy.classify(behind, waiting_for="model")
        else:
            kind = self.failure_policy.classify(error, waiting_for="environment")
        if kind is FailureKind.FATAL or not model_turns(episode):
            return Failed(error, FailureRecord.from_exception(error, kind), behind)
        if not has_reward and kind is not FailureKind.LIMIT and self.failure_policy.keeps(kind):
            episode.reward = math.nan
        _keep_own_reward(episode)
        fail(episode, error, kind, request_error=behind)
        _count(episode, recorder)
        return episode


def _partial_of(episode: Episode, own: art.Trajectory | None, recorder: ExchangeRecorder) -> Episode:
    """Return what is left of a rollout.

    Args:
        episode: What the function was given, or could have been.
        own: The trajectory that the function was writing, or that ART was capturing; it may be `episode`.
        recorder: What was asked of the model's client.
    """
    if own is episode and model_turns(episode):
        return episode
    recorder.write_turns(episode)
    if own is None or own is episode:
        return episode
    if not model_turns(episode):
        return cast("Episode", as_episode(own, episode.scenario, episode.member))
    # The requests say best what was said, and the function what it made of that.
    if "reward" in own.model_fields_set:
        episode.reward = own.reward
    episode.metrics = {**own.metrics, **episode.metrics}
    episode.metadata = {**own.metadata, **episode.metadata}
    episode.logs = [*own.logs, *episode.logs]
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
