"""One client per model, shared by everything that runs inside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from artkit.transport.openai_client import OpenAISamplingClient

if TYPE_CHECKING:
    import art

    from artkit.transport.sampling_client import SamplingClient

__all__ = ["sampling_session"]


@dataclass(frozen=True, slots=True)
class _Session:
    model: art.Model[Any, Any]
    loop: asyncio.AbstractEventLoop
    client: SamplingClient


_open_sessions: ContextVar[tuple[_Session, ...]] = ContextVar("artkit_sampling_sessions", default=())


@asynccontextmanager
async def sampling_session(model: art.Model[Any, Any]) -> AsyncIterator[SamplingClient]:
    """Yield a client for `model`, and close it at the end.

    Sessions nest: inside one, a further session on the same model and event loop yields the same client and leaves it
    open, so a thousand rollouts of one gather share one pool of connections while a rollout on its own still works.

    A registered model whose backend has a method `sampling_client(model)` samples through what that returns, for
    instance without HTTP where the backend lives in this process; every other model through its endpoint.

    Args:
        model: A model that is registered, or was made with an inference endpoint and a key.
    """
    loop = asyncio.get_running_loop()
    outer = _open_sessions.get()
    for session in outer:
        if session.model is model and session.loop is loop:
            yield session.client
            return
    client = _new_client(model)
    _open_sessions.set((*outer, _Session(model, loop, client)))
    try:
        yield client
    finally:
        # Set rather than reset: the end of a session may run in another context than its beginning (a fixture's does).
        _open_sessions.set(outer)
        await client.close()


def _new_client(model: art.Model[Any, Any]) -> SamplingClient:
    try:
        backend = model.backend()
    except ValueError:  # ART's way of saying that the model is not registered
        return OpenAISamplingClient(model)
    offer = getattr(backend, "sampling_client", None)
    return cast("SamplingClient", offer(model)) if callable(offer) else OpenAISamplingClient(model)
