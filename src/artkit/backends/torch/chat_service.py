"""Chat requests in, chat completions out: what the server and the in-process client share."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from artkit.backends.torch.api_error import ApiError
from artkit.backends.torch.batch import Generation
from artkit.backends.torch.chat_completion import chat_completion
from artkit.backends.torch.chat_request import ChatRequest
from artkit.backends.torch.server import Server
from artkit.backends.torch.stop_check import StopCheck
from artkit.backends.torch.tool_support import ToolsRefusedError
from artkit.errors import BackendError, CheckpointError
from artkit.transport import first_failure_group
from artkit.transport.fewer_collections import fewer_collections

if TYPE_CHECKING:
    from artkit.backends.torch.chat_tokenizer import ChatTokenizer
    from artkit.backends.torch.decoder import Decoder
    from artkit.backends.torch.policy import Policy
    from artkit.backends.torch.worker import Worker

__all__ = ["ChatService"]


class ChatService:
    """Answers chat requests for every registered model.

    Args:
        worker: Who samples.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._policies: dict[str, Policy] = {}
        self._numbers = itertools.count(1)
        self._created = int(time.time())
        self._lock = threading.Lock()
        self._server: Server | None = None

    def endpoint(self) -> tuple[str, str]:
        """The base URL and the key of the HTTP endpoint, which is opened when it is first asked for."""
        with self._lock:
            if self._server is None:
                self._server = Server(self.complete, self.models)
            return self._server.base_url, self._server.api_key

    def stop(self) -> None:
        """Close the endpoint. Idempotent."""
        if self._server is not None:
            self._server.stop()

    def serve(self, policy: Policy) -> None:
        """Answer for `policy` from now on."""
        self._policies[policy.name] = policy

    def models(self) -> dict[str, Any]:
        """The answer to `GET /v1/models`: each model by its name, and by each step that has a checkpoint."""
        names = [
            name
            for policy in list(self._policies.values())
            for name in (policy.name, *(f"{policy.name}@{step}" for step in sorted(policy.checkpoints.steps())))
        ]
        data = [{"id": name, "object": "model", "created": self._created, "owned_by": "artkit"} for name in names]
        return {"object": "list", "data": data}

    async def complete(self, body: object) -> dict[str, Any]:
        """The answer to `POST /v1/chat/completions`.

        Raises:
            ApiError: 400 for a request that cannot be met, 404 for an unknown model, 500 when sampling failed, 503
                when the backend is closing.
        """
        with fewer_collections():
            return await self._answer(ChatRequest.parse(body))

    async def _answer(self, request: ChatRequest) -> dict[str, Any]:
        policy, step = self._find(request.model)
        prompt_ids = _encode(policy.base.tokenizer, request)
        limit = _reply_limit(policy.base.config.max_position_embeddings, len(prompt_ids), request.max_tokens)
        try:
            if policy.is_in_memory(step):
                decoder = policy.decoder_at(step)
            else:
                decoder = await asyncio.to_thread(policy.decoder_at, step)
        except CheckpointError as error:
            raise ApiError(500, str(error)) from error
        if decoder is None:
            raise self._unknown(request.model)
        number = next(self._numbers)
        seed: int | str = policy.next_request_seed() if request.seed is None else request.seed
        if isinstance(seed, int) and seed < 0:
            seed = str(seed)  # of a number, a generator takes what it is without its sign
        generations = [
            Generation(
                prompt_ids=prompt_ids,
                max_new_tokens=limit,
                end_ids=policy.base.tokenizer.end_ids,
                settings=request.settings,
                # The first choice is the one that a request for a single one would have got.
                random=random.Random(seed if index == 0 else f"{seed}/{index}"),
                is_stopped=StopCheck(policy.base.tokenizer, request.stop) if request.stop else None,
            )
            for index in range(request.n)
        ]
        try:
            await self._generate(decoder, generations)
        except BackendError as error:
            raise ApiError(503, str(error)) from error
        except Exception as error:
            raise ApiError(500, f"sampling failed: {error!r}") from error
        return chat_completion(request, policy.base.tokenizer, generations, number)

    async def _generate(self, decoder: Decoder, generations: Sequence[Generation]) -> None:
        if len(generations) == 1:
            await self._worker.generate(decoder, generations[0])
            return
        async with first_failure_group() as group:
            for generation in generations:
                group.create_task(self._worker.generate(decoder, generation))

    def _find(self, model: str) -> tuple[Policy, int | None]:
        if model in self._policies:
            return self._policies[model], None
        name, _, step = model.rpartition("@")
        if name in self._policies and step.isascii() and step.isdigit():
            return self._policies[name], int(step)
        raise self._unknown(model)

    def _unknown(self, model: str) -> ApiError:
        known = ", ".join(entry["id"] for entry in self.models()["data"])
        return ApiError(
            404, f"The model {model!r} does not exist. These do: {known}", param="model", code="model_not_found"
        )


def _encode(tokenizer: ChatTokenizer, request: ChatRequest) -> list[int]:
    try:
        return tokenizer.encode_chat(
            request.messages,
            add_generation_prompt=True,
            tools=request.tools,
            template_arguments=request.template_arguments,
        )
    except ToolsRefusedError as error:
        raise ApiError(400, str(error), param=error.param, code="unsupported_parameter") from error
    except ValueError as error:
        raise ApiError(400, str(error), param="messages") from error


def _reply_limit(window: int, prompt: int, max_tokens: int | None) -> int:
    if max_tokens is None and prompt < window:
        return window - prompt
    reply = max_tokens or 1
    if prompt + reply > window:
        # vLLM's words: clients recognise an overflow by them.
        raise ApiError(
            400,
            f"This model's maximum context length is {window} tokens. However, you requested {prompt + reply} tokens "
            f"({prompt} in the messages, {reply} in the completion). Please reduce the length of the messages or "
            "completion.",
            param="messages",
            code="context_length_exceeded",
        )
    return reply
