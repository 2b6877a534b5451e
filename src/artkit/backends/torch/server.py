"""The OpenAI-compatible endpoint on loopback."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from artkit.backends.torch.api_error import ApiError
from artkit.secrets import known_secret

__all__ = ["Server"]

_HOST = "127.0.0.1"
_MAX_BODY_BYTES = 64 * 1024 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves chat completions over HTTP, on a port of the system's choice, behind a key that is drawn anew each time.

    It has a thread and an event loop of its own: it answers while the user's loop is busy, to a synchronous client as
    well, and outlives an `asyncio.run`.

    Args:
        complete: Answers a request's JSON body, or raises an `ApiError`; called on this thread's loop.
        models: Lists the models.
    """

    def __init__(
        self, complete: Callable[[object], Awaitable[dict[str, Any]]], models: Callable[[], dict[str, Any]]
    ) -> None:
        self._complete, self._list_models = complete, models
        self.api_key = secrets.token_urlsafe(32)
        known_secret(self.api_key)
        self._is_ready = threading.Event()
        self._error: BaseException | None = None
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._is_stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="artkit-torch-server", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def base_url(self) -> str:
        """What an OpenAI client is given as `base_url`."""
        return f"http://{_HOST}:{self._port}/v1"

    def stop(self) -> None:
        """Close every connection and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._is_stopping.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 (raised again where the server was asked for)
            self._error = error
        finally:
            self._loop.close()
            self._is_ready.set()

    async def _serve(self) -> None:
        app = web.Application(middlewares=[self._guard], client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        # Cancelled handlers take the requests of clients that hung up out of the batch.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, _HOST, 0)
            await site.start()
            self._port = runner.addresses[0][1]
            self._is_ready.set()
            await self._is_stopping.wait()
        finally:
            await runner.cleanup()
            await self._loop.shutdown_default_executor()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # What is no UTF-8 in a header comes as surrogates, and is a wrong key like any other.
        if not hmac.compare_digest(given.encode(errors="surrogateescape"), self.api_key.encode()):
            refusal = ApiError(401, "Incorrect API key: use model.inference_api_key", code="invalid_api_key")
            return web.json_response(refusal.body, status=refusal.status)
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body, status=error.status)
        except web.HTTPException as error:
            refusal = ApiError(error.status, f"{request.method} {request.path}: {error.reason}")
            return web.json_response(refusal.body, status=error.status)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ValueError as error:
            raise ApiError(400, f"the body is not JSON: {error}") from error
        answer = await self._complete(body)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _models(self, request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(self._list_models())
