"""Sampling over HTTP: the model's own OpenAI client, on the aiohttp transport."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
from openai.types.chat import ChatCompletion

from artkit.errors import EmptyReplyError
from artkit.secrets import known_secret, scrub
from artkit.transport.fewer_collections import fewer_collections
from artkit.transport.http_client import SamplingHttpClient

if TYPE_CHECKING:
    import art

    from artkit.transport.sampling_client import SamplingRequest

__all__ = ["OpenAISamplingClient"]

_LIMITS = httpx.Limits(
    # How many requests run at once is decided by whoever starts the rollouts, not by a hidden limit down here.
    max_connections=100_000,
    max_keepalive_connections=100_000,
    # Below the five seconds after which uvicorn, and so vLLM, hangs up on an idle connection: a request never meets a
    # connection that is just being closed.
    keepalive_expiry=3.0,
)


class OpenAISamplingClient:
    """A `SamplingClient` for any `art.Model` with an inference endpoint.

    It is the model's own client with another transport under it, so ART's cost accounting and token metadata stay. The
    OpenAI client's own retries and time-out are off: the request's `timeout_s` is the one deadline. (Under ART 0.5.23 a
    time-out of the OpenAI client would also be taken for the loss of the server.)

    Args:
        model: A model whose `openai_client()` works: registered, or made with an endpoint and a key.
    """

    def __init__(self, model: art.Model[Any, Any]) -> None:
        known_secret(model.inference_api_key)
        self._http_client = SamplingHttpClient(_LIMITS)
        self._client = model.openai_client().with_options(http_client=self._http_client, max_retries=0, timeout=None)

    async def complete(self, request: SamplingRequest) -> ChatCompletion:
        """Send one request.

        Raises:
            TimeoutError: `request.timeout_s` passed.
            EmptyReplyError: The server answered something that is no chat completion.
            openai.APIError: The server refused, failed or could not be reached.
        """
        try:
            with fewer_collections():
                async with asyncio.timeout(request.timeout_s):
                    completion = await self._client.chat.completions.create(**_arguments(request))
        except json.JSONDecodeError as error:
            raise _not_a_completion(error.doc) from error
        except UnicodeDecodeError as error:
            raise _not_a_completion(error.object.decode(errors="replace")) from error
        except RecursionError as error:
            json.dumps([request.messages, request.tools])  # raises it again where it is of what was to be sent
            raise _not_a_completion("JSON that is nested too deeply") from error
        except AttributeError as error:
            if error.name != "model_extra":
                raise
            # ART's own client looks into each choice, and a server may have sent null for it.
            raise _not_a_completion(error.obj) from error
        if not isinstance(completion, ChatCompletion):
            raise _not_a_completion(completion)
        return completion

    async def close(self) -> None:
        """Close the transport; the model's own client is left as it was."""
        await self._http_client.aclose()


class _Untouched:
    """A list as an argument of `create` that the OpenAI client leaves alone, with `extra_body` saying what is sent.

    The client walks through every message and tool in search of what it might convert, and finds nothing in plain
    dicts: from a few turns on that takes longer than all else together, and more with each turn. It does so for what
    has an `__iter__`. Whoever wraps `create`, such as a tracer, can go through this all the same, by index.
    """

    __slots__ = ("_items",)

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._items[index]

    def __repr__(self) -> str:
        return repr(self._items)


def _arguments(request: SamplingRequest) -> dict[str, Any]:
    """Return the arguments of `create`: what was left open is left out, so that the server's default holds.

    Plain values are part of `extra_body` too: the client looks up how to convert each argument, and converts none.
    """
    lists = {"messages": request.messages}
    if request.tools:
        lists["tools"] = request.tools
    body: dict[str, Any] = {**lists, "temperature": request.temperature, "top_p": request.top_p}
    if request.logprobs:
        body["logprobs"] = True
    if request.stop is not None:
        body["stop"] = request.stop if isinstance(request.stop, str) else list(request.stop)
    for name in ("max_completion_tokens", "seed"):
        if (value := getattr(request, name)) is not None:
            body[name] = value
    return {
        "model": request.model,
        **{name: _Untouched(items) for name, items in lists.items()},
        # These win over the arguments of the same name.
        "extra_body": {**body, **request.extra_body},
    }


def _not_a_completion(answer: object) -> EmptyReplyError:
    return EmptyReplyError(
        f"the server's answer is no chat completion: {scrub(str(answer))[:200]!r}",
        "check that the model's inference_base_url is an OpenAI-compatible endpoint, usually ending in /v1",
    )
