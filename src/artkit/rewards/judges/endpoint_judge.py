"""A judge at an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from artkit.errors import ConfigurationError, EmptyReplyError
from artkit.rewards.judges.judge import JudgeReply, Messages, read_completion
from artkit.rewards.settings import is_number
from artkit.secrets import known_secret, scrub

if TYPE_CHECKING:
    import openai

__all__ = ["EndpointJudge"]


class EndpointJudge:
    """Asks a model of any OpenAI-compatible server: vLLM, SGLang, Ollama, a proxy.

    The connection is shared by the calls that run at once, and closed with the last of them: there is nothing to close.

    Args:
        model: The model's name, as the server knows it.
        base_url: Where the server is: a URL of http or https, usually ending in /v1.
        api_key: Its key; a server without one takes any.
        sees_pictures: Whether pictures are sent as pictures.
        extra_body: Further fields of each request, such as `{"temperature": 0}`.
        prompt_usd_per_million: The price of what it reads, in US dollars per million tokens; None is unknown.
        completion_usd_per_million: The price of what it writes, in US dollars per million tokens.

    Raises:
        ConfigurationError: `model` is no name, `base_url` no URL, a price is negative, or only one is given.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str = "none",
        sees_pictures: bool = False,
        extra_body: Mapping[str, Any] | None = None,
        prompt_usd_per_million: float | None = None,
        completion_usd_per_million: float | None = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ConfigurationError(f"model={model!r} is no name", "give the model's name, as the server knows it")
        if not isinstance(base_url, str) or not base_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"base_url={base_url!r} is no URL of http or https", 'give one such as "http://localhost:8000/v1"'
            )
        prices = (prompt_usd_per_million, completion_usd_per_million)
        if None in prices and prices != (None, None):
            raise ConfigurationError(f"only one of the prices {prices!r} is given", "give both, or neither")
        if any(price is not None and not (is_number(price) and price >= 0) for price in prices):
            raise ConfigurationError(f"the prices {prices!r} are no prices", "give US dollars per million tokens")
        self.model = model
        self.base_url = base_url
        self.api_key = api_key
        known_secret(api_key)
        self.sees_pictures = sees_pictures
        self.extra_body = dict(extra_body or {})
        self.prompt_usd_per_million = prompt_usd_per_million
        self.completion_usd_per_million = completion_usd_per_million
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()

    async def __call__(self, messages: Messages) -> JudgeReply:
        async with self._client() as client:
            try:
                completion: Any = await client.chat.completions.create(
                    model=self.model,
                    messages=messages,  # type: ignore[arg-type]  # TypedDicts
                    extra_body=self.extra_body or None,
                )
            except json.JSONDecodeError as error:
                raise _not_a_completion(self.base_url, error.doc) from error
        if not getattr(completion, "choices", None):  # such as an error in an answer of status 200
            raise _not_a_completion(self.base_url, getattr(completion, "model_extra", None) or completion)
        reply = read_completion(completion)
        return dataclasses.replace(reply, cost_usd=self._cost_usd(reply, getattr(completion, "usage", None)))

    def _cost_usd(self, reply: JudgeReply, usage: object) -> float | None:
        if self.prompt_usd_per_million is None or self.completion_usd_per_million is None:
            cost = getattr(usage, "cost", None)  # where a proxy such as OpenRouter reports it
            return float(cost) if is_number(cost) else None
        return (
            reply.prompt_tokens * self.prompt_usd_per_million
            + reply.completion_tokens * self.completion_usd_per_million
        ) / 1e6

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[openai.AsyncOpenAI]:
        loop = asyncio.get_running_loop()
        shared = self._clients.get(loop)
        if shared is None:
            shared = self._clients[loop] = _Shared(_new_client(self.base_url, self.api_key))
        shared.users += 1
        try:
            yield shared.client
        finally:
            shared.users -= 1
            if not shared.users:
                del self._clients[loop]
                await shared.client.close()

    def __repr__(self) -> str:
        return scrub(f"EndpointJudge({self.model!r}, base_url={self.base_url!r})")


@dataclasses.dataclass(slots=True)
class _Shared:
    client: openai.AsyncOpenAI
    users: int = 0


def _new_client(base_url: str, api_key: str) -> openai.AsyncOpenAI:
    import openai

    # Retries and deadlines are the caller's: they have one owner.
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key,
        max_retries=0,
        timeout=None,
        http_client=openai.DefaultAioHttpClient(timeout=None),
    )


def _not_a_completion(base_url: str, answer: object) -> EmptyReplyError:
    return EmptyReplyError(
        f"the answer of {base_url} is no chat completion: {scrub(str(answer))[:200]!r}",
        "check that base_url is an OpenAI-compatible endpoint, usually ending in /v1",
    )
