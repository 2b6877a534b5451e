"""Sampling in the policy's own process, without HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from openai.types.chat import ChatCompletion

from artkit.backends.torch.api_error import ApiError

if TYPE_CHECKING:
    from artkit.backends.torch.chat_service import ChatService
    from artkit.transport import SamplingRequest

__all__ = ["TorchSamplingClient"]


class TorchSamplingClient:
    """A `SamplingClient` that hands requests straight to the backend.

    It answers as the endpoint does, errors included, for a quarter of the work per request.

    Args:
        service: Who answers.
    """

    def __init__(self, service: ChatService) -> None:
        self._service = service

    async def complete(self, request: SamplingRequest) -> ChatCompletion:
        """Answer one request; see `SamplingClient`.

        Raises:
            TimeoutError: `request.timeout_s` passed.
            openai.APIStatusError: The endpoint would have answered with that status.
        """
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await self._service.complete(_body(request))
        except ApiError as error:
            raise error.as_openai_error() from error
        return ChatCompletion.model_validate(answer)

    async def close(self) -> None:
        """Nothing is held."""


def _body(request: SamplingRequest) -> dict[str, Any]:
    return {
        "model": request.model,
        "messages": request.messages,
        "tools": request.tools,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_completion_tokens": request.max_completion_tokens,
        "stop": request.stop,
        "seed": request.seed,
        "logprobs": request.logprobs,
        **request.extra_body,
    }
