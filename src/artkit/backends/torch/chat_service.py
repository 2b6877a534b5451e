"""Chat requests in, chat completions out: what the server and the in-process client share."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from artkit.backends.torch.api_error import ApiError
from artkit.backends.torch.batch import Generation
from artkit.backends.torch.chat_request import ChatRequest
from artkit.backends.torch.server import Server
from artkit.backends.torch.stop_check import StopCheck
from artkit.errors import BackendError

if TYPE_CHECKING:
    from artkit.backends.torch.chat_tokenizer import ChatTokenizer
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
        request = ChatRequest.parse(body)
        policy, step = self._find(request.model)
        prompt_ids = _encode(policy.base.tokenizer, request)
        limit = _reply_limit(policy.base.config.max_position_embeddings, len(prompt_ids), request.max_tokens)
        if policy.is_in_memory(step):
            decoder = policy.decoder_at(step)
        else:
            decoder = await asyncio.to_thread(policy.decoder_at, step)
        if decoder is None:
            raise self._unknown(request.model)
        number = next(self._numbers)
        generation = Generation(
            prompt_ids=prompt_ids,
            max_new_tokens=limit,
            end_ids=policy.base.tokenizer.end_ids,
            settings=request.settings,
            random=random.Random(policy.next_request_seed() if request.seed is None else request.seed),
            is_stopped=StopCheck(policy.base.tokenizer, request.stop) if request.stop else None,
        )
        try:
            await self._worker.generate(decoder, generation)
        except BackendError as error:
            raise ApiError(503, str(error)) from error
        except Exception as error:
            raise ApiError(500, f"sampling failed: {error!r}") from error
        return _completion(request, policy.base.tokenizer, generation, number)

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
            request.messages, add_generation_prompt=True, template_arguments=request.template_arguments
        )
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


def _completion(request: ChatRequest, tokenizer: ChatTokenizer, generation: Generation, number: int) -> dict[str, Any]:
    """A chat completion with the ids and log probabilities in the shape that vLLM and ART use."""
    text = tokenizer.decode(generation.token_ids)
    cuts = [place for stop in request.stop if (place := text.find(stop)) >= 0]
    logprobs = None
    if request.logprobs:
        content = [
            {
                "token": f"token_id:{token_id}",
                "logprob": logprob,
                "bytes": _utf8(tokenizer.decode([token_id])),
                "top_logprobs": [],
            }
            for token_id, logprob in zip(generation.token_ids, generation.logprobs, strict=True)
        ]
        logprobs = {"content": content, "refusal": None}
    prompt, reply = len(generation.prompt_ids), len(generation.token_ids)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text[: min(cuts)] if cuts else text, "refusal": None},
        "finish_reason": generation.finish_reason,
        "logprobs": logprobs,
        # On the choice too, because a trajectory keeps choices, not responses.
        "prompt_token_ids": generation.prompt_ids,
        "token_ids": generation.token_ids,
    }
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [choice],
        "usage": {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply},
        "prompt_token_ids": generation.prompt_ids,
    }


def _utf8(text: str) -> list[int]:
    # Half a character has no bytes of its own.
    return [] if "\N{REPLACEMENT CHARACTER}" in text else list(text.encode())
