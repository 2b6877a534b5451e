"""The HTTP client under the OpenAI client: what each of thousands of small requests need not do."""

from __future__ import annotations

from typing import Any

import httpx
import openai
from openai.types.chat import ChatCompletion
from pydantic import ValidationError

__all__ = ["SamplingHttpClient"]


class SamplingHttpClient(openai.DefaultAioHttpClient):
    """An `openai.DefaultAioHttpClient` for chat completions, without a time-out.

    Requests go the way they always go, past whoever watches httpx (ART captures trajectories there); only what is made
    of each before, and of its answer behind, is made in less time.

    Args:
        limits: Of its connections.
    """

    def __init__(self, limits: httpx.Limits) -> None:
        super().__init__(limits=limits, timeout=None)
        self._no_timeout = {"timeout": self.timeout.as_dict()}
        self._jar = _Jar()

    @property
    def cookies(self) -> httpx.Cookies:
        """See `httpx.AsyncClient.cookies`."""
        return self._jar

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._jar = _Jar(cookies)

    def build_request(
        self, method: str, url: httpx.URL | str, *, content: Any = None, headers: Any = None, **others: Any
    ) -> httpx.Request:
        """See `httpx.AsyncClient.build_request`; there is little to merge where the OpenAI client sends bytes."""
        is_plain = isinstance(content, bytes) and isinstance(headers, httpx.Headers) and not self.cookies
        if not is_plain or any(others[name] for name in others):
            return super().build_request(method, url, content=content, headers=headers, **others)
        for name in ("accept-encoding", "connection"):
            headers.setdefault(name, self.headers[name])
        return httpx.Request(method, url, headers=headers, content=content, extensions=dict(self._no_timeout))

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """See `httpx.AsyncClient.send`."""
        response = await super().send(request, **options)
        # Made by httpx and its transport, which know of no other class.
        response.__class__ = _CompletionResponse
        return response


class _Jar(httpx.Cookies):
    """Cookies; a response without any is not searched, which takes as long as to read it."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """See `httpx.Cookies.extract_cookies`."""
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


class _CompletionResponse(httpx.Response):
    """A response whose JSON is a `ChatCompletion` at once, where it is one.

    The OpenAI client hands on as it is what is no mapping. From a mapping it constructs the same object, unchecked, and
    in several times the time.
    """

    def json(self, **options: Any) -> Any:
        """The completion, or what `httpx.Response.json` returns."""
        try:
            return ChatCompletion.model_validate_json(self.content, strict=True)
        except ValidationError:
            return super().json(**options)
