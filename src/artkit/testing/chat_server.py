"""An OpenAI-compatible server on loopback that answers from a script."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from artkit.errors import ConfigurationError
from artkit.testing.completion import completion_body, error_body
from artkit.testing.reply import Reply

if TYPE_CHECKING:
    import art

__all__ = ["ChatServer", "Script"]

Script = (
    Sequence[Reply | str] | Mapping[str, Reply | str] | Callable[[dict[str, Any]], Reply | str | Awaitable[Reply | str]]
)
"""The forms of a script; `ChatServer` says what each does."""


class ChatServer:
    """An OpenAI-compatible server on loopback that answers from a script.

    A real server on a real socket, so that what is tested is what runs: retries, time-outs, broken connections. Used as
    `async with` on the running event loop, or as `with` on a thread of its own.

    Args:
        script: What to answer. A sequence: its replies in the order of the requests, and 400 beyond its end. A mapping:
            the reply by the text of the request's last message, and 400 for any other text. A function, plain or async:
            called with the body of each request, it returns the reply. Each reply is a `Reply`, or a str, which is
            `Reply(str)`.
        models: The names it serves; others are refused with 404. None serves every name.

    Attributes:
        requests: The bodies of all requests with the right key, in order of arrival.
        max_in_flight: The most requests that were being answered at once.

    Raises:
        ConfigurationError: `script` is no script.

    >>> import openai
    >>> with ChatServer(["four"]) as server, openai.OpenAI(base_url=server.base_url, api_key=server.api_key) as client:
    ...     reply = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "2+2?"}])
    >>> reply.choices[0].message.content
    'four'
    """

    def __init__(self, script: Script, *, models: Sequence[str] | None = None) -> None:
        if isinstance(script, str | bytes | Reply):
            raise ConfigurationError(f"script={script!r} is one reply, not a script", f"give [{script!r}]")
        if not callable(script) and not isinstance(script, Sequence | Mapping):
            raise ConfigurationError(
                f"script={script!r} is no script", "give a list of replies, a mapping, or a function of the request"
            )
        self.requests: list[dict[str, Any]] = []
        self.max_in_flight = 0
        self._script = script
        self._models = None if models is None else tuple(models)
        self._api_key = secrets.token_urlsafe(16)
        self._in_flight = 0
        self._runner: web.AppRunner | None = None
        self._port: int | None = None
        self._closed_port: socket.socket | None = None
        self._thread: _LoopThread | None = None

    @property
    def api_key(self) -> str:
        """The one key it accepts; a new one per server."""
        return self._api_key

    @property
    def base_url(self) -> str:
        """Where it listens, `/v1` included."""
        if self._port is None:
            raise ConfigurationError("the ChatServer is not running", "use it inside `async with` or `with`")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def is_running(self) -> bool:
        return self._runner is not None

    def model(self, name: str = "scripted", *, project: str = "testing") -> art.Model[Any, Any]:
        """Return an `art.Model`, not trainable, that samples from this server."""
        import art

        return art.Model(name=name, project=project, inference_api_key=self.api_key, inference_base_url=self.base_url)

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1; does nothing where it listens already."""
        if self._runner is not None:
            return
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list_models)
        # Cancelling a request whose client hung up lets a scripted delay end with it.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        # Bound and never listened on: whoever connects is refused, and no other program can take it.
        self._closed_port = socket.socket()
        self._closed_port.bind(("127.0.0.1", 0))

    async def close(self) -> None:
        """Stop listening and end every request; idempotent."""
        if self._runner is not None:
            runner, self._runner, self._port = self._runner, None, None
            if self._closed_port is not None:
                self._closed_port.close()
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self._thread = _LoopThread()
        self._thread.run(self.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.run(self.close())
            self._thread.stop()
            self._thread = None

    async def _list_models(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "artkit"} for name in self._models or ()]
        return web.json_response({"object": "list", "data": data})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        body = await request.json()
        self.requests.append(body)
        number = len(self.requests)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            reply = await self._reply(body, number)
            await asyncio.sleep(reply.delay_s)
        finally:
            self._in_flight -= 1
        if reply.drop == "refused" and self._closed_port is not None:
            port = self._closed_port.getsockname()[1]
            return web.Response(
                status=web.HTTPTemporaryRedirect.status_code, headers={"Location": f"http://127.0.0.1:{port}/v1"}
            )
        return await _send(reply, request, body, number)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if secrets.compare_digest(request.headers.get("Authorization", ""), f"Bearer {self._api_key}"):
            return None
        error = {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}
        return web.json_response(error_body(error, 401), status=401)

    async def _reply(self, body: dict[str, Any], number: int) -> Reply:
        if self._models is not None and body.get("model") not in self._models:
            message = f"The model {body.get('model')!r} does not exist"
            return Reply(status=404, error={"message": message, "type": "NotFoundError", "code": "model_not_found"})
        if body.get("stream"):
            return Reply(status=400, error="a ChatServer does not stream")
        script = self._script
        if callable(script):
            answer = script(body)
            reply = await answer if inspect.isawaitable(answer) else answer
        elif isinstance(script, Mapping):
            text = body["messages"][-1].get("content")
            reply = script.get(text, Reply(status=400, error=f"the script has no reply to {text!r}"))
        elif number <= len(script):
            reply = script[number - 1]
        else:
            reply = Reply(status=400, error=f"the script has {len(script)} replies, and this is request {number}")
        return Reply(reply) if isinstance(reply, str) else reply


async def _send(reply: Reply, request: web.Request, body: Mapping[str, Any], number: int) -> web.StreamResponse:
    if reply.drop == "before":
        _hang_up(request)
    if reply.raw_body is not None:
        text = reply.raw_body if isinstance(reply.raw_body, str) else json.dumps(reply.raw_body)
    elif reply.status >= web.HTTPBadRequest.status_code or reply.error is not None:
        text = json.dumps(error_body(reply.error, reply.status))
    else:
        text = json.dumps(completion_body(reply, body, number=number))
    headers = {"Content-Type": "application/json", **reply.headers}
    payload = text.encode()
    if reply.drop not in {"mid body", "stalled"}:
        return web.Response(body=payload, status=reply.status, headers=headers)
    response = web.StreamResponse(status=reply.status, headers={**headers, "Content-Length": str(len(payload))})
    with contextlib.suppress(ConnectionError):  # the client was faster
        await response.prepare(request)
        await response.write(payload[: len(payload) // 2])
    if reply.drop == "stalled":
        await asyncio.Event().wait()  # ended by the client that hangs up, or by `close`
    _hang_up(request)
    return response


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


class _LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="artkit-chat-server", daemon=True)
        self._thread.start()

    def run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
