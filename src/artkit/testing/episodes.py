"""Hand-made replies and episodes, as a real server and a real rollout leave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openai.types.chat.chat_completion import Choice

from artkit.episodes import Episode
from artkit.testing.completion import completion_body
from artkit.testing.reply import Reply

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

__all__ = ["choice", "episode"]


def choice(reply: Reply | str, *, prompt: str = "") -> Choice:
    """Return a model's reply with log probabilities and token ids, such that ART finds it trainable.

    Args:
        reply: What the model said; a str is `Reply(str)`.
        prompt: The text before it, for the ids of the prompt.

    >>> choice("ab").message.content, choice("ab").model_extra["token_ids"]
    ('ab', [97, 98])
    """
    reply = Reply(reply) if isinstance(reply, str) else reply
    request = {
        "messages": [{"role": "user", "content": prompt}],
        "logprobs": True,
        "return_token_ids": True,
    }
    body = completion_body(reply, request, number=1)
    # ART's client copies the prompt's ids from the response to its choice.
    return Choice.model_validate({**body["choices"][0], "prompt_token_ids": body["prompt_token_ids"]})


def episode(
    *turns: str | Choice | ChatCompletionMessageParam,
    reward: float = 0.0,
    scenario: Any = None,
    outcome: Any = None,
    metrics: Mapping[str, float] | None = None,
) -> Episode:
    """Return an episode of the given turns.

    Args:
        turns: In order: a str is a user message, a `choice` a reply of the model, anything else a message as it is.
        reward: Its reward.
        scenario: The scenario that was played; its `id`, if it has one, goes to the metadata.
        outcome: Its structured end.
        metrics: Its metrics.

    >>> episode("2+3=", choice("5"), reward=1.0).messages()[-1]["content"]
    '5'
    """
    scenario_id = getattr(scenario, "id", None)
    return Episode(
        messages_and_choices=[{"role": "user", "content": turn} if isinstance(turn, str) else turn for turn in turns],
        reward=reward,
        scenario=scenario,
        outcome=outcome,
        metrics=dict(metrics or {}),
        metadata={} if scenario_id is None else {"scenario_id": scenario_id},
    )
