"""Registering a model so that it works also where its backend was closed before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from artkit.bridge.client_cache import forget_client
from artkit.bridge.keys import guard_keys

if TYPE_CHECKING:
    import art

__all__ = ["open_model"]


async def open_model(model: art.TrainableModel[Any, Any], backend: Any) -> None:
    """Register `model` with `backend`, for the first time or again.

    Two things of ART's are made anew where they would not work any more: the HTTP client of a serverless backend that
    was closed, and (0.5.18 keeps it) the model's own client of an endpoint that has moved.
    """
    serverless: Any = getattr(sys.modules.get("art.serverless.backend"), "ServerlessBackend", ())
    if isinstance(backend, serverless) and backend._client.is_closed():
        client = backend._client
        backend._client = type(client)(api_key=client.api_key, base_url=str(client.base_url))
    before = (model.inference_base_url, model.inference_api_key)
    await model.register(backend)
    guard_keys(model, backend)
    if (model.inference_base_url, model.inference_api_key) != before:
        await forget_client(model)
