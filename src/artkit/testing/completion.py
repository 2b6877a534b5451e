"""The body of a scripted reply, in the shape of OpenAI's chat completions and of vLLM's additions for ART."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artkit.testing.tokens import logprob_entries, prompt_text, reply_text, token_ids

if TYPE_CHECKING:
    from artkit.testing.reply import Reply

__all__ = ["completion_body", "error_body"]


def completion_body(reply: Reply, request: Mapping[str, Any], *, number: int) -> dict[str, Any]:
    """Return the answer to `request`.

    Log probabilities and token ids are sent as a real server sends them: where the request asks for them, or where the
    reply sets them.

    Args:
        reply: What the script says.
        request: The body of the request.
        number: The request's number on this server, from 1; it makes ids unique.
    """
    calls = [_call(call, f"call_{number}_{index}") for index, call in enumerate(reply.tool_calls)]
    ids = list(token_ids(reply_text(reply.text, calls)) if reply.token_ids is None else reply.token_ids)
    prompt = reply.prompt_token_ids
    prompt_ids = token_ids(prompt_text(request.get("messages") or ())) if prompt is None else list(prompt)

    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    if calls:
        message["tool_calls"] = calls
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": reply.finish_reason or ("tool_calls" if calls else "stop"),
        "logprobs": _logprobs(reply, request, ids),
    }
    body: dict[str, Any] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model"),
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt_ids) + len(ids),
            **(reply.usage or {}),
        },
    }
    if request.get("return_token_ids") or reply.token_ids is not None or prompt is not None:
        choice["token_ids"] = ids
        body["prompt_token_ids"] = prompt_ids
    return body


def error_body(error: str | Mapping[str, Any] | None, status: int) -> dict[str, Any]:
    """Return the body of a refusal."""
    if isinstance(error, Mapping):
        return {"error": dict(error)}
    return {"error": {"message": error or f"scripted status {status}", "type": "scripted_error", "code": None}}


def _logprobs(reply: Reply, request: Mapping[str, Any], ids: Sequence[int]) -> dict[str, Any] | None:
    if reply.logprobs is False or (reply.logprobs is None and not request.get("logprobs")):
        return None
    return {"content": logprob_entries(ids, reply.logprobs), "refusal": None}


def _call(call: tuple[str, Mapping[str, Any] | str] | Mapping[str, Any], call_id: str) -> dict[str, Any]:
    if isinstance(call, Mapping):
        return dict(call)
    name, arguments = call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
