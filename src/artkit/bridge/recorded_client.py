"""A model whose chat completions are watched, for rollouts that were written for plain ART."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from openai.types.chat import ChatCompletion

from artkit.bridge.keys import guard_keys

__all__ = ["OnExchange", "with_recorded_client"]

ModelT = TypeVar("ModelT")

OnExchange = Callable[[dict[str, Any], ChatCompletion | BaseException], None]
"""Called with the arguments of a request and its reply, or the exception in its place, in the order of the replies."""


def with_recorded_client(model: ModelT, on_exchange: OnExchange) -> ModelT:
    """Return a copy of `model` that reports every chat completion asked for through its `openai_client()`.

    Reported are `chat.completions.create` and `parse`, also of clients made by `with_options`, under `beta`, and of raw
    responses. Streamed replies pass by unreported. ART's own wrapping of the client stays in place underneath, and
    `model` itself is left as it is: rollouts side by side each watch their own copy.

    A model without a client of its own is returned as it is, for there is nothing to report: one that has no endpoint
    (its own error tells whoever asks it), or an object that is no `art.Model`.

    Args:
        model: An `art.Model` with an inference endpoint, or whatever else a rollout calls its model.
        on_exchange: Called with the request's arguments, the list of messages copied when it was sent, and the reply;
            or with the exception that the request ended in, a cancellation included.
    """
    import art

    if not isinstance(model, art.Model):
        return model
    guard_keys(model)
    try:
        client = model.openai_client()
    except ValueError:  # ART's way of saying that there is no endpoint
        return model
    watched = model.model_copy()
    # What ART makes on the first call of `openai_client()` and returns on every call.
    watched._openai_client = _Client(client, on_exchange)  # type: ignore[assignment]
    return watched


class _Passing:
    """Passes everything on that it does not have itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Client(_Passing):
    def __init__(self, inner: Any, on_exchange: OnExchange) -> None:
        super().__init__(inner)
        self._on_exchange = on_exchange
        self.chat = _Chat(inner.chat, on_exchange)
        self.beta = _Beta(inner.beta, on_exchange)

    def with_options(self, *args: Any, **kwargs: Any) -> _Client:
        return _Client(self._inner.with_options(*args, **kwargs), self._on_exchange)

    copy = with_options

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> Any:
        return await self._inner.__aexit__(*exc_info)


class _Beta(_Passing):
    def __init__(self, inner: Any, on_exchange: OnExchange) -> None:
        super().__init__(inner)
        self.chat = _Chat(inner.chat, on_exchange)


class _Chat(_Passing):
    def __init__(self, inner: Any, on_exchange: OnExchange) -> None:
        super().__init__(inner)
        self.completions = _Completions(inner.completions, on_exchange)


class _Completions(_Passing):
    """The chat completions, or those with raw responses."""

    def __init__(self, inner: Any, on_exchange: OnExchange) -> None:
        super().__init__(inner)
        self._on_exchange = on_exchange

    @property
    def with_raw_response(self) -> _Completions:
        return _Completions(self._inner.with_raw_response, self._on_exchange)

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        return await self._watch(self._inner.create, args, kwargs)

    async def parse(self, *args: Any, **kwargs: Any) -> Any:
        return await self._watch(self._inner.parse, args, kwargs)

    async def _watch(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A rollout appends to its list of messages as it goes on: what was sent is what the list held now.
        sent = dict(kwargs)
        if "messages" in sent:
            sent["messages"] = list(sent["messages"])
        try:
            response = await call(*args, **sent)
        except BaseException as error:
            self._on_exchange(sent, error)
            raise
        is_raw = not sent.get("stream") and callable(getattr(response, "parse", None))
        reply = response.parse() if is_raw else response  # which a raw response keeps
        if isinstance(reply, ChatCompletion):
            self._on_exchange(sent, reply)
        return response
