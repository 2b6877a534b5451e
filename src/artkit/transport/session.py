"""One client per model, shared by everything that runs inside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from artkit.errors import BackendError
from artkit.secrets import scrub
from artkit.transport.cancellation import own_cancellation
from artkit.transport.openai_client import OpenAISamplingClient

if TYPE_CHECKING:
    import art

    from artkit.transport.sampling_client import SamplingClient

__all__ = ["sampling_session"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Session:
    model: art.Model[Any, Any]
    loop: asyncio.AbstractEventLoop
    client: SamplingClient


_open_sessions: ContextVar[tuple[_Session, ...]] = ContextVar("artkit_sampling_sessions", default=())


@asynccontextmanager
async def sampling_session(model: art.Model[Any, Any]) -> AsyncIterator[SamplingClient]:
    """Yield a client for `model`, and close it at the end; what goes wrong in that is logged, and costs nothing else.

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
        try:
            with own_cancellation("closing the sampling client", BackendError):
                await client.close()
        except Exception as error:  # noqa: BLE001  # a backend's client may raise anything, and what was sampled is worth more
            _LOG.warning("closing the sampling client of %r failed: %s", model.name, scrub(repr(error)))


def _new_client(model: art.Model[Any, Any]) -> SamplingClient:
    try:
        backend = model.backend()
    except ValueError:  # ART's way of saying that the model is not registered
        return OpenAISamplingClient(model)
    offer = getattr(backend, "sampling_client", None)
    return cast("SamplingClient", offer(model)) if callable(offer) else OpenAISamplingClient(model)
