"""An existing rollout function, wrapped so that its turns survive its errors."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artkit.bridge import with_recorded_client
from artkit.episodes import Episode, FailureKind, FailurePolicy, FailureRecord
from artkit.errors import ConfigurationError
from artkit.rollouts.attempt import Attempt, Failed
from artkit.rollouts.ending import fail, finish
from artkit.rollouts.grouping import as_episode, failure_of
from artkit.rollouts.recorder import ExchangeRecorder, model_turns

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
            recorded on the way. Or `async (model, scenario, episode)`, which writes its turns into
            `episode.messages_and_choices` itself and may return nothing.
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
        for played in range(self.failure_policy.rollout_retries + 1):
            attempt = await self._run(model, scenario, member)
            failure = attempt.record if isinstance(attempt, Failed) else failure_of(attempt)
            if failure is None or not self.failure_policy.replays(failure.kind):
                break
        return finish(attempt, started_s=started_s, retries=played) if isinstance(attempt, Episode) else attempt

    async def _run(self, model: art.Model[Any, Any], scenario: Scenario, member: int) -> Attempt:
        episode = Episode(scenario=scenario, member=member, metadata={"scenario_id": scenario.id})
        recorder = ExchangeRecorder()
        recorded = with_recorded_client(model, recorder)
        try:
            if self.takes_episode:
                returned = await self.fn(recorded, scenario, episode)
                result = as_episode(episode if returned is None else returned, scenario, member)
            else:
                result = as_episode(await self.fn(recorded, scenario), scenario, member)
        except Exception as error:  # noqa: BLE001  # a user's rollout may raise anything; the policy sorts it
            if not self.takes_episode:
                recorder.write_turns(episode)
            kind = self.failure_policy.classify(error, waiting_for=recorder.blame(error))
            turns = model_turns(episode)
            if kind is FailureKind.FATAL or not turns:
                return Failed(error, FailureRecord.from_exception(error, kind))
            episode.metrics["turns"] = turns
            fail(episode, error, kind, timed_out=isinstance(error, TimeoutError))
            return episode
        if isinstance(result, Episode):
            result.metrics.setdefault("turns", model_turns(result))
        return result


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
    return len(required) == 3  # noqa: PLR2004  # model, scenario and the episode
