"""A model as the actor of a play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artkit.environments import Action
from artkit.transport import SamplingRequest, complete_with_retry

if TYPE_CHECKING:
    import art
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

    from artkit.episodes import Episode
    from artkit.rollouts.sampling import Sampling
    from artkit.transport import SamplingClient

__all__ = ["ModelActor"]


class ModelActor:
    """Asks `model` for each reply, and adds the tokens the server reports to the episode's metrics.

    Attributes:
        retries: Requests that had to be sent again, those of a turn that failed for good included.
    """

    def __init__(
        self,
        client: SamplingClient,
        model: art.Model[Any, Any],
        episode: Episode,
        *,
        sampling: Sampling,
        request_timeout_s: float | None,
        max_retries: int,
        replay: int = 0,
    ) -> None:
        self.retries = 0
        self._client = client
        self._episode = episode
        self._name = model.get_inference_name()
        self._trainable = model.trainable
        self._sampling = sampling
        self._request_timeout_s = request_timeout_s
        self._max_retries = max_retries
        self._replay = replay

    async def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, turn: int) -> Choice:
        sampling = self._sampling
        request = SamplingRequest(
            model=self._name,
            messages=messages,
            tools=tools,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_completion_tokens=sampling.max_completion_tokens,
            stop=sampling.stop,
            seed=sampling.request_seed(self._episode.scenario.id, self._episode.member, turn, replay=self._replay),
            logprobs=self._trainable,
            timeout_s=self._request_timeout_s,
            extra_body=sampling.extra_body,
        )
        completion = await complete_with_retry(
            self._client,
            request,
            max_retries=self._max_retries,
            on_retry=self._count_retry,
            on_discard=self._count_tokens,
        )
        self._count_tokens(completion)
        choice = completion.choices[0]
        if self._is_cut_off(choice, completion.usage):
            self._episode.log(
                f"turn {turn}: finish_reason={choice.finish_reason!r} became 'length', for the reply ends inside a "
                f"tool call, at its limit of {sampling.max_completion_tokens} tokens"
            )
            return choice.model_copy(update={"finish_reason": "length"})
        return choice

    def _is_cut_off(self, choice: Choice, usage: CompletionUsage | None) -> bool:
        """Whether the reply ends inside a tool call at its token limit, which some servers call "tool_calls" too."""
        limit = self._sampling.max_completion_tokens
        if choice.finish_reason == "length" or usage is None or limit is None or usage.completion_tokens < limit:
            return False
        return any(call.error for call in Action(choice.message).tool_calls)

    def _count_retry(self) -> None:
        self.retries += 1

    def _count_tokens(self, completion: ChatCompletion) -> None:
        if completion.usage is None:
            return
        metrics = self._episode.metrics
        metrics["prompt_tokens"] = metrics.get("prompt_tokens", 0) + completion.usage.prompt_tokens
        metrics["completion_tokens"] = metrics.get("completion_tokens", 0) + completion.usage.completion_tokens
