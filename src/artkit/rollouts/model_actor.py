"""A model as the actor of a play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artkit.bridge.safe_values import safe_number
from artkit.environments.action import parse_arguments, written_calls
from artkit.rollouts.asked import note_asked
from artkit.transport import RetryPolicy, SamplingRequest, complete_with_retry

if TYPE_CHECKING:
    from collections.abc import Callable

    import art
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

    from artkit.episodes import Episode, FailurePolicy
    from artkit.rollouts.sampling import Sampling
    from artkit.transport import SamplingClient

__all__ = ["ModelActor"]

# Mistral's word, Anthropic's and Gemini's, Z.ai's, and that of OpenAI's newer interface; gateways pass them on.
_OTHER_WORDS = frozenset({"model_length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})


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
        failure_policy: FailurePolicy,
        on_reply: Callable[[], None],
        replay: int = 0,
    ) -> None:
        self.retries = 0
        self._client = client
        self._episode = episode
        self._name = model.get_inference_name()
        self._trainable = model.trainable
        if self._trainable:
            note_asked(episode.scenario.id, self._name)
        self._sampling = sampling
        self._request_timeout_s = request_timeout_s
        self._failure_policy = failure_policy
        self._on_reply = on_reply
        self._retry_policy = RetryPolicy(budget_s=failure_policy.retry_budget_s)
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
            max_retries=self._failure_policy.max_retries,
            policy=self._retry_policy,
            may_retry=self._failure_policy.resends,
            on_retry=self._count_retry,
            on_discard=self._count_tokens,
        )
        self._on_reply()
        self._count_tokens(completion)
        choice = completion.choices[0]
        if (why := self._why_cut_off(choice, completion.usage)) is not None:
            self._episode.log(f"turn {turn}: finish_reason={choice.finish_reason!r} became 'length', for {why}")
            return choice.model_copy(update={"finish_reason": "length"})
        return choice

    def _why_cut_off(self, choice: Choice, usage: CompletionUsage | None) -> str | None:
        """Return why the reply was cut off at its token limit, where its server does not say so in OpenAI's word."""
        if choice.finish_reason == "length":
            return None
        if str(choice.finish_reason).casefold() in _OTHER_WORDS:
            return "that is what it means"
        extra = self._sampling.extra_body
        limits = [self._sampling.max_completion_tokens, extra.get("max_completion_tokens"), extra.get("max_tokens")]
        limit = min(filter(None, limits), default=None)
        if limit is None or _tokens(usage, "completion_tokens") < limit:
            return None
        # Some servers call it "tool_calls" too. Of a call that ends after its name there are no arguments at all.
        calls = written_calls(choice.message)
        if any(not call.arguments.strip() or parse_arguments(call.arguments)[1] for call in calls):
            return f"the reply ends inside a tool call, at its limit of {limit} tokens"
        return None

    def _count_retry(self) -> None:
        self.retries += 1

    def _count_tokens(self, completion: ChatCompletion) -> None:
        if completion.usage is None:
            return
        metrics = self._episode.metrics
        for name in ("prompt_tokens", "completion_tokens"):
            metrics[name] = metrics.get(name, 0) + _tokens(completion.usage, name)


def _tokens(usage: CompletionUsage | None, name: str) -> float:
    """Return a count of the server's; 0 where it leaves it out, or sends null for it."""
    return safe_number(getattr(usage, name, None)) or 0
